import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** What an example of a page shows. */
type Kind = 'client' | 'leg' | 'answer';

/** A marker, and the example below it if it is there already. */
const examples = /<!-- (client|leg|answer): (\S+) -->(?:\n\n```http\n[^]*?\n```)?/g;

/**
 * Writes the examples of a page anew: below each marker `<!-- leg: NAME -->` a request as it stands in the golden file
 * `legs/NAME.json`, below `answer` a file of `answers/`, below `client` a file of `requests/`. The rest stays as it is.
 *
 * @param testdata folder of the golden files.
 * @throws Error when a marker names a file that is not there.
 */
export function refreshExamples(page: string, testdata: string): string {
  return page.replaceAll(
    examples,
    (_all, kind: Kind, name: string) =>
      `<!-- ${kind}: ${name} -->\n\n\`\`\`http\n${exampleOf(kind, name, testdata)}\n\`\`\``,
  );
}

/** The markers of a page in order, each as `kind: name`. */
export function markersOf(page: string): string[] {
  return [...page.matchAll(examples)].map(([, kind, name]) => `${kind}: ${name}`);
}

function exampleOf(kind: Kind, name: string, testdata: string): string {
  const read = (file: string): string => readFileSync(join(testdata, file), 'utf8').trimEnd();
  switch (kind) {
    case 'client': {
      // A probe goes to the path that the client has asked for.
      const { path } = headOf(read(`legs/conditional-decode.${name}.json`));
      return `POST ${path}\ncontent-type: application/json\n\n${read(`requests/${name}.json`)}`;
    }
    case 'leg': {
      const golden = read(`legs/${name}.json`);
      const { method, path, headers } = headOf(golden);
      const lines = Object.entries(headers).map(([header, value]) => `${header}: ${value}`);
      return [`${method} ${path}`, ...lines, '', bodyOf(golden)].join('\n');
    }
    case 'answer': {
      const type = name.endsWith('.sse') ? 'text/event-stream' : 'application/json';
      return `HTTP/1.1 200 OK\ncontent-type: ${type}\n\n${read(`answers/${name}`)}`;
    }
  }
}

interface Head {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
}

// Golden files are written by our own tests.
const headOf = (golden: string): Head => JSON.parse(golden) as Head;

const bodyStart = '\n  "body": ';

/** The body as it stands in the file: parsing would change digits beyond 2^53. */
function bodyOf(golden: string): string {
  const at = golden.indexOf(bodyStart);
  if (at < 0) throw new Error('a golden file of a leg has no body');
  return golden.slice(at + bodyStart.length, -'\n}'.length).replaceAll('\n  ', '\n');
}
