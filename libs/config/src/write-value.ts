import { stringify } from 'yaml';

/** A value on one line, as a configuration file would spell it. */
export function writeValue(value: unknown): string {
  // A text of several lines would become a block.
  if (typeof value === 'string' && value.includes('\n')) return JSON.stringify(value);
  return stringify(value, {
    collectionStyle: 'flow',
    flowCollectionPadding: false,
    lineWidth: 0,
  }).trimEnd();
}
