/** Bytes of a real picture, as the clients of the local stack send them. */
const png =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC';
const picture = `data:image/png;base64,${png}`;

/** A request that the coordinator serves as it stands. */
export interface GoodRequest {
  readonly path: string;
  readonly body: object;
}

const chat = (fields: object): GoodRequest => ({
  path: '/v1/chat/completions',
  body: { model: 'm', messages: [{ role: 'user', content: 'hi' }], ...fields },
});
const withPictures = (count: number): object => ({
  messages: [
    { role: 'system', content: 'You are terse.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'what is é \u{1f600} "this"\\?' },
        ...Array.from({ length: count }, () => ({
          type: 'image_url',
          image_url: { url: picture, detail: 'low' },
        })),
      ],
    },
  ],
});
const tool = {
  type: 'function',
  function: { name: 'f', parameters: { type: 'object', properties: { b: {}, a: { type: 'x' } } } },
};

/** What mutations start from: every API, with most of what steps look at. */
export const goodRequests: readonly GoodRequest[] = [
  chat({}),
  chat({ stream: true, stream_options: { include_usage: true }, seed: 12345, n: 1 }),
  chat({ ...withPictures(1), max_tokens: 9, max_completion_tokens: 9, min_tokens: 2 }),
  chat({ ...withPictures(2), tools: [tool], logit_bias: { '50256': -100 }, vllm_xargs: { a: 1 } }),
  chat({ n: 3, temperature: 0.5, metadata: { id: 1 }, sampling_params: { extra_args: {} } }),
  { path: '/v1/completions', body: { model: 'm', prompt: 'Once', max_tokens: 5 } },
  { path: '/v1/completions', body: { model: 'm', prompt: [1, 2, 3], stream: true } },
  { path: '/v1/completions', body: { model: 'm', prompt: ['a', 'b'] } },
  {
    path: '/inference/v1/generate',
    body: {
      model: 'm',
      token_ids: [1, 5, 5, 5, 2],
      sampling_params: { max_tokens: 4, min_tokens: 1 },
      features: {
        mm_hashes: { image: ['h'] },
        mm_placeholders: { image: [{ offset: 1, length: 3 }] },
        kwargs_data: { image: [null] },
      },
    },
  },
  {
    path: '/v1/responses',
    body: {
      model: 'm',
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'x' },
            { type: 'input_image', image_url: picture },
          ],
        },
      ],
      max_output_tokens: 5,
    },
  },
  { path: '/v1/responses', body: { model: 'm', input: 'hello', store: false, stream: true } },
];
