import {
  defaultMediaFetchOptions,
  MediaError,
  type MediaFetcher,
  type MediaFetchOptions,
  MediaLog,
  parseAllowedDomains,
  repairDataUri,
  reportedFault,
} from '@llm-d/media';
import { type MediaLimits, type MediaSource } from '@llm-d/pipeline';

/**
 * Hands the media fetcher to the steps, with the limits of a step in the fetcher's terms. `countRemote` is told of what
 * another process downloaded.
 */
export function mediaSource(
  fetcher: MediaFetcher,
  countRemote: MediaSource['countRemote'] = () => {},
): MediaSource {
  const lines = new MediaLog();
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
    fetchMany: (references, limits, { signal, log }, inlineBytes) =>
      fetcher.fetchMany(references, { ...optionsFor(limits), inlineBytes }, signal, (item) => {
        const indices = item.indices.map((i) => references[i]?.index ?? i);
        lines.itemEnded(log, { ...item, indices });
      }),
    checkUrls: (references, limits) => {
      for (const [i, { url }] of references.entries()) {
        try {
          fetcher.checkUrl(url, optionsFor(limits));
        } catch (error) {
          if (error instanceof MediaError) error.index = i;
          throw error;
        }
      }
    },
    checkDataUri: (uri, modality, limits) =>
      fetcher.parseDataUri(uri, optionsFor(limits), modality).decodedLength,
    repairDataUri,
    faultOf: reportedFault,
    countRemote,
  };
}
