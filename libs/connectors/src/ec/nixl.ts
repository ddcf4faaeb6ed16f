import { jsonRaw, type JsonSpan } from '@llm-d/json-document';
import { type EcConnector, EcConflictError } from './ec-connector.ts';
import { isSameJson } from './is-same-json.ts';

/** NIXL: the encode pod keeps the embedding and answers a descriptor for each media hash; prefill pulls it. */
export const nixl: EcConnector = {
  collects: true,
  prefillParams(answered) {
    const merged = new Map<string, JsonSpan>();
    for (const { name, value } of answered.flatMap((params) => params.members())) {
      if (value.isNull()) continue;
      const known = merged.get(name);
      if (known && !isSameJson(known, value)) throw new EcConflictError();
      if (!known) merged.set(name, value);
    }
    return merged.size === 0 ? undefined : jsonRaw(Object.fromEntries(merged));
  },
};
