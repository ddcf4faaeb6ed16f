import { JsonError, type JsonSpan, parseJson, rootOf } from '@llm-d/json-document';

const [quote, backslash] = [0x22, 0x5c];
const [upperN, upperI, one, zero] = [0x4e, 0x49, 0x31, 0x30];
const names = ['NaN', 'Infinity'];

/**
 * The value of a worker's text. `NaN` and `Infinity`, which Python writes for log probabilities, pass as numbers and
 * keep their bytes. Undefined when the text is not JSON otherwise.
 */
export function readJson(bytes: Uint8Array): JsonSpan | undefined {
  try {
    return parseJson(bytes);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
  }
  try {
    // Names give way to numbers of the same length, so that the structure of the checked text is that of the original.
    parseJson(withoutNames(bytes));
    return rootOf(bytes);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    return undefined;
  }
}

function withoutNames(bytes: Uint8Array): Uint8Array {
  const copy = Buffer.from(bytes);
  let isText = false;
  for (let at = 0; at < copy.length; at++) {
    const byte = copy[at];
    if (byte === quote) isText = !isText;
    else if (isText && byte === backslash) at++;
    else if (!isText && (byte === upperN || byte === upperI)) {
      const name = names.find((text) => copy.toString('latin1', at, at + text.length) === text);
      if (name) copy.fill(zero, at, at + name.length).fill(one, at, at + 1);
    }
  }
  return copy;
}
