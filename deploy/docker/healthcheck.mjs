// HEALTHCHECK of an image without shell and curl: `node healthcheck.mjs URL` ends with 0 when URL answers 200.
try {
  const { status } = await fetch(process.argv[2], { signal: AbortSignal.timeout(2500) });
  process.exitCode = status === 200 ? 0 : 1;
} catch {
  process.exitCode = 1;
}
