import { httpAddress, integer, setting, text } from '@llm-d/config';
import { z } from 'zod';

/** Sizes in the configuration are given in mebibytes. */
export const bytesPerMb = 1_048_576;

/** A JavaScript string holds at most 2^29 - 24 characters, so that base64 of more cannot exist. */
const maxMediaMb = 383;

export const positiveInteger = integer('a positive integer', 1);
export const count = integer('a non-negative integer', 0);
export const mediaMb = integer(`a whole number of MB from 1 to ${maxMediaMb}`, 1, maxMediaMb);
export const flag = setting('true or false', (value) =>
  typeof value === 'boolean' ? value : undefined,
);

export const upstreamAddress = httpAddress('an http address such as http://render:8000');

const overrides = "Overrides the pipeline's key.";

/** The key of the pipeline section, written into the params of the steps that use it. */
export const usesOpenAiFormat = flag.prefault(true).describe(overrides);
export const connectorName = text.optional().describe(overrides);

/** A key that has no meaning on a step any more; its presence tells of a stale configuration. */
export const staleKey = (reason: string) => z.undefined({ error: reason }).optional();
