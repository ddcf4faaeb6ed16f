import { expect, it } from '@jest/globals';
import { renderSoak } from '@llm-d/soak';

// The short form of `npm run -s soak -- render`; times are not judged, a machine that runs tests has other work.
it('renders chats beside a hostile text, and large pictures within its memory', async () => {
  const { faults, chats } = await renderSoak({
    seconds: 1,
    rate: 30,
    images: 2,
    judgesTimes: false,
  });
  expect({ faults, chats }).toEqual({ faults: [], chats: 30 });
}, 120_000);
