import { guardrail } from './guardrail.ts';

/** What `pipeline.plugins` takes from this package. */
export const steps = [guardrail];
