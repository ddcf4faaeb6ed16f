import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The photo that comes with this repository; `photo/README.md` has its licence. */
export const demoPhoto = fileURLToPath(new URL('../photo/harbour.jpg', import.meta.url));

const types: Record<string, string> = {
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.png': 'image/png',
  '.webp': 'image/webp',
  '.gif': 'image/gif',
};

/** A picture file as a `data:` URI. @throws Error when the file's name does not tell a supported type. */
export async function toDataUri(file: string): Promise<string> {
  const type = types[extname(file).toLowerCase()];
  if (!type) throw new Error(`${file}: expected a .jpg, .png, .webp or .gif file`);
  return `data:${type};base64,${(await readFile(file)).toString('base64')}`;
}
