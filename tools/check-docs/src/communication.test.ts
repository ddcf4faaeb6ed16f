import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { communicationPage, goldenFiles } from './pages.ts';
import { markersOf, refreshExamples } from './refresh-examples.ts';

const page = readFileSync(communicationPage, 'utf8');

describe('docs/communication.md', () => {
  it('shows what the golden files hold (after a change: node tools/check-docs/src/main.ts)', () => {
    expect(page).toBe(refreshExamples(page, goldenFiles));
  });

  it('has an example of every kind of leg on every API that has it', () => {
    const shown = new Set(markersOf(page).map((marker) => marker.split('.').slice(0, 2).join('.')));
    const golden = readdirSync(join(goldenFiles, 'legs'))
      .filter((file) => file.endsWith('.json'))
      .map((file) => `leg: ${file.split('.').slice(0, 2).join('.')}`);
    // A probe differs from decode by one header, a reservation from prefill: the page shows them once.
    const needed = new Set(
      golden.filter(
        (leg) => !/(conditional-decode|reserve)\.(completions|generate|responses)/.test(leg),
      ),
    );
    expect([...needed].filter((leg) => !shown.has(leg))).toEqual([]);
  });
});
