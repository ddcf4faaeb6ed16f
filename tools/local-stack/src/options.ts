import { parseArgs } from 'node:util';

/** What `npm start` was asked to do. */
export interface Options {
  /** End after the demo. */
  readonly isOnce: boolean;
  /** Print one JSON object as the last line. */
  readonly isJson: boolean;
  /** The question of the demo. */
  readonly prompt: string;
  /** A picture file for the demo; the shipped photo when left out. */
  readonly image?: string | undefined;
  /** Send the picture by URL, so that the media fetcher downloads it. */
  readonly isByUrl: boolean;
  /** Where logs and generated configuration go. */
  readonly directory: string;
}

export const usage = `Usage: npm start -- [options]
  --once          end after the demo; exit code 0 only when the answer came and every leg was seen
  --json          the last line is one JSON object
  --prompt TEXT   the question of the demo
  --image FILE    a picture (JPEG, PNG, WebP or GIF) in place of the shipped photo
  --by-url        sends it by URL: the media fetcher downloads it from an address of this machine
  --dir FOLDER    where logs go (.local-stack)`;

/** @throws TypeError for an unknown flag. */
export function readOptions(args: readonly string[]): Options | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      once: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      prompt: { type: 'string', default: 'What do you see on this photo? Answer in one sentence.' },
      image: { type: 'string' },
      'by-url': { type: 'boolean', default: false },
      dir: { type: 'string', default: '.local-stack' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return 'help';
  return {
    isOnce: values.once,
    isJson: values.json,
    prompt: values.prompt,
    image: values.image,
    isByUrl: values['by-url'],
    directory: values.dir,
  };
}
