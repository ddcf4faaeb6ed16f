import { json } from 'node:stream/consumers';
import { fuzzUrls, type UrlFuzzPlan } from '@llm-d/media/url-fuzz';

/** Runs a fuzz of the address guard; see run-rig.ts. */
const plan = (await json(process.stdin)) as UrlFuzzPlan;
process.stdout.write(JSON.stringify(await fuzzUrls(plan)));
