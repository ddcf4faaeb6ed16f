import { readFileSync } from 'node:fs';
import { extname, join } from 'node:path';

/** A marker, and the block below it if it is there already. */
const blocks = /<!-- file: (\S+) -->(?:\n\n```\w+\n[^]*?\n```)?/g;

/**
 * Writes the files that a page shows anew: below each marker `<!-- file: PATH -->` the whole text of that file of the
 * repository. The rest stays as it is.
 *
 * @param root folder that the paths are relative to.
 * @throws Error when a marker names a file that is not there.
 */
export function refreshFiles(page: string, root: string): string {
  return page.replaceAll(blocks, (_all, path: string) => {
    const text = readFileSync(join(root, path), 'utf8').trimEnd();
    return `<!-- file: ${path} -->\n\n\`\`\`${extname(path).slice(1)}\n${text}\n\`\`\``;
  });
}
