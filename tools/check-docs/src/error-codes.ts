import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Folders whose code answers clients of the coordinator. */
const folders = [
  'libs/connectors/src',
  'libs/gateway/src',
  'libs/pipeline/src',
  'libs/service/src',
  'libs/steps/src',
  'apps/coordinator/src',
];

/** A code that is given to an error: a member or an option `code`, not a comparison. */
const givenCode =
  /\bcode(?::| =| \?\?| = [^;=]*\?|: [^;,=]*\?)\s*\|?\s*((?:'[A-Z][A-Z_]+'\s*[|:]?\s*)+)/g;

/** A table of codes by what happened, such as `transportCodes`. */
const codeTable = /const \w+Codes = \{([^}]*)\}/g;

/** The second argument of a refusal at the edge. */
const refusalCode = /new RequestError\(\s*[\w.]+,\s*'([A-Z][A-Z_]+)'/g;

/** The codes that a source gives to errors, each once. */
export function errorCodesOf(source: string): string[] {
  const given = [...source.matchAll(givenCode)].flatMap(([, list = '']) =>
    [...list.matchAll(/'([A-Z_]+)'/g)].map(([, code = '']) => code),
  );
  const fallbacks = [...source.matchAll(/\bcode \?\? '([A-Z_]+)'/g)].map(([, code = '']) => code);
  const listed = [...source.matchAll(codeTable)].flatMap(([, table = '']) =>
    [...table.matchAll(/: '([A-Z][A-Z_]+)'/g)].map(([, code = '']) => code),
  );
  const refused = [...source.matchAll(refusalCode)].map(([, code = '']) => code);
  return [...new Set([...given, ...fallbacks, ...listed, ...refused])];
}

/** The texts of all sources that answer clients, without tests. */
export function sourceFiles(root: string): string[] {
  return folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !/(?:\.test|\/testing|^testing)\.ts$/.test(file))
      .map((file) => readFileSync(join(root, folder, file), 'utf8')),
  );
}
