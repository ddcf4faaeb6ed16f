import { ecConnectors, kvConnector, kvConnectors } from '@llm-d/connectors';
import { type Api, apiOfPath, apiPaths } from '@llm-d/gateway';
import { type StepDependencies } from '@llm-d/pipeline';
import { MemorySink, requestContext } from '@llm-d/pipeline/testing';
import { type Answer, expectGolden, type RecordedCall } from '@llm-d/testing';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { answerFile, Rig, seedWire, testdata } from './testing.ts';

const requests = [
  ...['chat.text', 'chat.one-image', 'chat.two-images'],
  ...['completions.text', 'completions.token-ids'],
  ...['generate.text', 'generate.one-image', 'generate.two-images'],
  ...['responses.text', 'responses.one-image', 'responses.two-images'],
];
const formats = [
  { format: 'openai', usesOpenAi: true },
  { format: 'tokens-in', usesOpenAi: false },
];
const kvNames = Object.keys(kvConnectors);
const ecNames = Object.keys(ecConnectors);

interface Combination {
  request: string;
  format: string;
  usesOpenAi: boolean;
  kv: string;
  ec: string;
}

const combinations: Combination[] = requests.flatMap((request) =>
  formats.flatMap((format) =>
    kvNames.flatMap((kv) => ecNames.map((ec) => ({ request, ...format, kv, ec }))),
  ),
);

let rig: Rig;

beforeAll(async () => {
  rig = await Rig.open();
});

afterAll(() => rig.close());

/** Runs a request through all steps and holds each leg against its golden file. */
async function checkLegs(
  { request, format, usesOpenAi, kv, ec }: Combination,
  folder: string,
  wire?: StepDependencies['wire'],
): Promise<void> {
  const body = testdata(`requests/${request}.json`);
  const [api = 'chat', variant = ''] = request.split('.') as [Api, string];
  const { isConcurrent } = kvConnector(kv);
  const hasFormats = api === 'chat' || api === 'responses';
  let encoded = 0;
  const firstCall = rig.gateway.calls.length;
  const firstRender = rig.renderService.calls.length;
  rig.renderService.play(() => answerFile(`render.${request}.json`));
  rig.gateway.play(({ headers }): Answer => {
    switch (roleOf(headers)) {
      case 'conditional-decode':
        return { status: 412 };
      case 'encode':
        return answerFile(`encode.${encoded++}.json`);
      case 'reserve':
        return { status: 204, headers: { 'x-llm-d-reserved-host-port': '10.0.2.1:8000' } };
      case 'prefill':
        return answerFile(`prefill.${kv === 'kv-nixl' ? kv : 'without-params'}.json`);
      default:
        return answerFile(
          `decode.${api}.${body.includes('"stream": true') && hasFormats ? 'sse' : 'json'}`,
        );
    }
  });
  const pair = { kv_connector: kv, ec_connector: ec, use_openai_format: usesOpenAi };
  const pipeline = rig.pipeline(
    [
      { type: 'replace-media-urls' },
      { type: 'render' },
      { type: 'conditional-decode' },
      // One after another, so that the legs arrive in order.
      { type: 'encode', params: { ...pair, max_parallel: 1 } },
      ...(isConcurrent
        ? [{ type: 'prefill-decode', params: pair }]
        : [
            { type: 'prefill', params: pair },
            { type: 'decode', params: { kv_connector: kv } },
          ]),
    ],
    wire ? { wire } : {},
  );
  const sink = new MemorySink();
  await pipeline.run(requestContext({ api, body, sink }));
  expect(sink).toMatchObject({ status: 200, ended: 'whole' });

  const legs = rig.gateway.calls.slice(firstCall).toSorted(byRole);
  const images = hasFormats ? ['one-image', 'two-images'].indexOf(variant) + 1 : 0;
  expect(legs.map(({ headers }) => roleOf(headers))).toEqual([
    'conditional-decode',
    ...Array.from({ length: images }, () => 'encode'),
    ...(isConcurrent ? ['reserve'] : []),
    'prefill',
    'decode',
  ]);
  const formatted = hasFormats ? `.${format}` : '';
  const golden = (name: string, call: RecordedCall | undefined): void =>
    expectGolden(import.meta.dirname, `legs/${folder}${name}.json`, call && exchangeText(call));
  const rendered = rig.renderService.calls.slice(firstRender);
  expect(rendered).toHaveLength(hasFormats || request === 'completions.text' ? 1 : 0);
  if (rendered[0]) golden(`render.${request}`, rendered[0]);
  golden(`conditional-decode.${request}`, legs[0]);
  legs
    .slice(1, images + 1)
    .forEach((call, i) => golden(`encode.${request}${formatted}.${i}`, call));
  const connectors = `${kv}${images > 0 ? `.${ec}` : ''}`;
  if (isConcurrent) golden(`reserve.${request}${formatted}.${connectors}`, legs.at(-3));
  golden(`prefill.${request}${formatted}.${connectors}`, legs.at(-2));
  golden(`decode.${request}.${kv}`, legs.at(-1));
}

/** Roles in the order in which their legs are looked at; prefill and decode of one step arrive in any. */
const roles = ['conditional-decode', 'encode', 'reserve', 'prefill', 'decode'];

function roleOf(headers: RecordedCall['headers']): string {
  switch (headers['prefer']?.[0]) {
    case 'if-available':
      return 'conditional-decode';
    case 'reserve-endpoint':
      return 'reserve';
    default:
      return headers['epp-profile']?.[0] ?? '';
  }
}

const byRole = (a: RecordedCall, b: RecordedCall): number =>
  roles.indexOf(roleOf(a.headers)) - roles.indexOf(roleOf(b.headers));

/** A call as JSON text whose body keeps its bytes; what differs in each run is named by its kind. */
function exchangeText({ method, path, headers, body }: RecordedCall): string {
  const left = new Set(['host', 'connection', 'content-length']);
  const kept = Object.entries(headers)
    .filter(([name]) => !left.has(name))
    .map(([name, values]) => {
      const isDecision = name === 'x-llm-d-revision-decision-id';
      if (isDecision) expect(values[0]).toMatch(/^[0-9a-f-]{36}$/);
      return [name, isDecision ? '<uuid>' : values.join(', ')];
    });
  const text = body.toString('utf8').replace(/(?<="bootstrap_room":)\d+/, '"<integer>"');
  return `{"method":${JSON.stringify(method)},"path":${JSON.stringify(path)},"headers":${JSON.stringify(Object.fromEntries(kept))},"body":${text}}`;
}

describe('the newest wire', () => {
  it.each(combinations)('$request as $format with $kv and $ec', async (combination) => {
    await checkLegs(combination, '');
  });
});

describe('the wire of the seed era', () => {
  // A second image makes no other shape.
  it.each(combinations.filter(({ request }) => !request.endsWith('two-images')))(
    '$request as $format with $kv and $ec',
    async (combination) => {
      await checkLegs(combination, 'seed/', seedWire);
    },
  );
});

describe('the requests of this test', () => {
  it('cover every API', () => {
    const apis = new Set(requests.map((request) => request.split('.')[0]));
    expect([...apis]).toEqual(Object.values(apiPaths).map(apiOfPath));
  });
});
