import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createSecureContext, type SecureContextOptions } from 'node:tls';

/** Reads `tls.crt` and `tls.key` of a directory. Throws an Error that names the file or says what does not fit. */
export function readTlsFiles(directory: string): SecureContextOptions {
  const files = {
    cert: readFileSync(join(directory, 'tls.crt')),
    key: readFileSync(join(directory, 'tls.key')),
  };
  createSecureContext(files);
  return files;
}
