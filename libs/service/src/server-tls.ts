import { readFileSync, unwatchFile, watchFile } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { createSecureContext, type SecureContextOptions, type Server } from 'node:tls';
import { type Logger } from '@llm-d/telemetry';
import { tlsOptions, type TlsProfile } from './tls-options.ts';

/** How a listener speaks TLS. */
export interface TlsSettings extends TlsProfile {
  /** Directory of `tls.crt` and `tls.key`, as Kubernetes mounts a TLS secret; empty: a self-signed certificate. */
  readonly certificatePath: string;
}

interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

/** How often the files are looked at. A look follows links, so it sees the `..data` link of Kubernetes swapped. */
const watchIntervalMs = 1_000;

const selfSignedMs = 10 * 365 * 24 * 3_600_000;

/** The certificate of one listener or several, which follow its files. */
export class ServerTls {
  readonly #profile: SecureContextOptions;
  readonly #directory: string;
  readonly #logger: Logger;
  #pair: KeyPair;

  private constructor(settings: TlsSettings, pair: KeyPair, logger: Logger) {
    this.#profile = tlsOptions(settings);
    this.#directory = settings.certificatePath;
    this.#logger = logger;
    this.#pair = pair;
    createSecureContext(this.options);
  }

  /** Reads or makes the certificate. Rejects, with a reason, when files are missing or do not belong together. */
  static async load(settings: TlsSettings, logger: Logger): Promise<ServerTls> {
    const { certificatePath } = settings;
    const pair = certificatePath === '' ? await selfSigned() : readPair(certificatePath);
    return new ServerTls(settings, pair, logger);
  }

  /** For `createServer` of `node:https` or `node:tls`. */
  get options(): SecureContextOptions {
    return { ...this.#profile, ...this.#pair };
  }

  /**
   * Hands a server every later certificate, for its later connections. A pair that cannot be used is logged and
   * the last good one stays.
   *
   * @returns what ends it.
   */
  follow(server: Pick<Server, 'setSecureContext'>): () => void {
    if (this.#directory === '') return () => undefined;
    const files = [certificateFile(this.#directory), keyFile(this.#directory)];
    let current = this.#pair;
    const reload = (): void => {
      try {
        const pair = readPair(this.#directory);
        if (pair.cert === current.cert && pair.key === current.key) return;
        server.setSecureContext({ ...this.#profile, ...pair });
        current = this.#pair = pair;
        this.#logger.info('the TLS certificate has changed');
      } catch (error) {
        // The two files may change one after the other; the second change is seen too.
        this.#logger.error(
          { err: error },
          'the changed TLS certificate cannot be used, the last one stays',
        );
      }
    };
    for (const file of files) {
      watchFile(file, { interval: watchIntervalMs, persistent: false }, reload);
    }
    return () => {
      for (const file of files) unwatchFile(file, reload);
    };
  }
}

const certificateFile = (directory: string): string => join(directory, 'tls.crt');
const keyFile = (directory: string): string => join(directory, 'tls.key');

function readPair(directory: string): KeyPair {
  return {
    cert: readFileSync(certificateFile(directory), 'utf8'),
    key: readFileSync(keyFile(directory), 'utf8'),
  };
}

/** A certificate for trials: nobody has reason to trust it. */
async function selfSigned(): Promise<KeyPair> {
  const { generate } = await import('selfsigned');
  const { cert, private: key } = await generate([{ name: 'commonName', value: hostname() }], {
    keyType: 'ec',
    algorithm: 'sha256',
    notAfterDate: new Date(Date.now() + selfSignedMs),
    extensions: [
      { name: 'basicConstraints', cA: false },
      { name: 'keyUsage', digitalSignature: true },
      { name: 'extKeyUsage', serverAuth: true },
      {
        name: 'subjectAltName',
        altNames: [
          { type: 2, value: 'localhost' },
          { type: 2, value: hostname() },
          { type: 7, ip: '127.0.0.1' },
          { type: 7, ip: '::1' },
        ],
      },
    ],
  });
  return { cert, key };
}
