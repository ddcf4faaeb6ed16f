// `helm test`: every app is ready, and, when a model is named, the coordinator answers a completion, one about an image,
// and one that was queued.
const { COORDINATOR, RENDER, MEDIA, BROKER, MODEL, IMAGE, QUEUE } = process.env;
const pollMs = 500;
const polls = 120;
const failures = [];

/** Notes a failure unless the answer is good; resolves with the answer's body, undefined without one. */
async function check(what, url, options) {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(30_000), ...options });
    console.log(`${what}: HTTP ${answer.status}`);
    if (!answer.ok) failures.push(what);
    return { status: answer.status, text: await answer.text() };
  } catch (error) {
    console.log(`${what}: ${error.cause?.code ?? error.message}`);
    failures.push(what);
    return undefined;
  }
}

const post = (body, headers = {}) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify({ model: MODEL, max_tokens: 4, ...body }),
});

/** Queues a completion and asks for its result until there is one. */
async function checkQueue() {
  const mode = { 'x-llm-d-async-mode': 'enqueue' };
  const url = `${COORDINATOR}/v1/completions`;
  const queued = await check('a request is queued', url, post({ prompt: 'Once' }, mode));
  if (queued?.status !== 202) {
    failures.push('queue');
    return;
  }
  const { id } = JSON.parse(queued.text);
  for (let poll = 0; poll < polls; poll++) {
    const answer = await check('its result', `${COORDINATOR}/v1/requests/${id}`);
    if (answer?.status !== 202) return;
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
  failures.push('result');
  console.log('its result: not there in time');
}

await check('coordinator is ready', `${COORDINATOR}/readyz`);
if (RENDER) await check('render-shim is ready', `${RENDER}/readyz`);
if (MEDIA) await check('media-fetcher is ready', `${MEDIA}/readyz`);
if (BROKER) await check('async-broker is ready', `${BROKER}/readyz`);
if (MODEL) {
  await check(
    'a completion',
    `${COORDINATOR}/v1/completions`,
    post({ prompt: 'Once upon a time' }),
  );
  if (IMAGE) {
    // 8 by 8, red.
    const png =
      'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAACXBIWXMAAAPoAAAD6AG1e1JrAAAAEUlEQVQImWM4ISeHFTEMLQkAkL9BAaxyLUcAAAAASUVORK5CYII=';
    const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } };
    const content = [{ type: 'text', text: 'What is this?' }, image];
    const body = post({ messages: [{ role: 'user', content }] });
    await check('a completion about an image', `${COORDINATOR}/v1/chat/completions`, body);
  }
  if (QUEUE) await checkQueue();
}
process.exitCode = failures.length === 0 ? 0 : 1;
