import {
  defaultMediaFetchOptions,
  type MediaFetcher,
  type MediaFetchOptions,
  parseAllowedDomains,
  repairDataUri,
  reportedFault,
} from '@llm-d/media';
import { type MediaLimits, type MediaSource } from '@llm-d/pipeline';

/** Hands the media fetcher to the steps, with the limits of a step in the fetcher's terms. */
export function mediaSource(fetcher: MediaFetcher): MediaSource {
  // A step has one set of limits for all its requests.
  const known = new WeakMap<MediaLimits, MediaFetchOptions>();
  const optionsFor = (limits: MediaLimits): MediaFetchOptions => {
    let options = known.get(limits);
    if (!options) {
      options = {
        ...defaultMediaFetchOptions,
        ...limits,
        allowedDomains: parseAllowedDomains(limits.allowedDomains),
      };
      known.set(limits, options);
    }
    return options;
  };
  return {
    checkLimits: optionsFor,
    fetchMany: (references, limits, signal, inlineBytes) =>
      fetcher.fetchMany(references, { ...optionsFor(limits), inlineBytes }, signal),
    checkDataUri: (uri, modality, limits) =>
      fetcher.parseDataUri(uri, optionsFor(limits), modality).decodedLength,
    repairDataUri,
    faultOf: reportedFault,
  };
}
