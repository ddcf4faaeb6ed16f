import { json } from 'node:stream/consumers';
import { mostBuffered, slowReaders, type SlowReadersOptions } from './slow-readers.ts';

/** Runs a crowd of slow readers; see run-rig.ts. */
const options = (await json(process.stdin)) as SlowReadersOptions;
// Where the buffers of the system could not be made small, those of so many would fill its memory.
const readers = mostBuffered() > 1024 * 1024 ? options.readers / 4 : options.readers;
process.stdout.write(JSON.stringify(await slowReaders({ ...options, readers })));
