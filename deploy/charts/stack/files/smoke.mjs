// `helm test`: every app is ready, and the coordinator answers one completion when a model is named.
const { COORDINATOR, RENDER, MEDIA, BROKER, MODEL } = process.env;
const failures = [];

async function check(what, url, options) {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(30_000), ...options });
    console.log(`${what}: HTTP ${answer.status}`);
    if (!answer.ok) failures.push(what);
  } catch (error) {
    console.log(`${what}: ${error.cause?.code ?? error.message}`);
    failures.push(what);
  }
}

await check('coordinator is ready', `${COORDINATOR}/readyz`);
if (RENDER) await check('render-shim is ready', `${RENDER}/readyz`);
if (MEDIA) await check('media-fetcher is ready', `${MEDIA}/readyz`);
if (BROKER) await check('async-broker is ready', `${BROKER}/readyz`);
if (MODEL) {
  await check('a completion', `${COORDINATOR}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, prompt: 'Once upon a time', max_tokens: 4 }),
  });
}
process.exitCode = failures.length === 0 ? 0 : 1;
