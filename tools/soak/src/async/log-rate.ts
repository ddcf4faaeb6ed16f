const linesPerSecond = 50;

/**
 * Counts warnings and errors of processes by the second: a fault must not become a flood. What is written once for each
 * answered request does not count; its rate is that of the clients.
 */
export class LogRate {
  readonly #counts = new Map<string, number>();
  readonly #worst = new Map<string, number>();

  add(process: string, line: string): void {
    if (!/"level":"(?:warn|error|fatal)"/.test(line) || line.includes('"request_id"')) return;
    const key = `${process} ${Math.floor(Date.now() / 1_000)}`;
    const count = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, count);
    this.#worst.set(process, Math.max(this.#worst.get(process) ?? 0, count));
  }

  faults(): string[] {
    return [...this.#worst]
      .filter(([, count]) => count >= linesPerSecond)
      .map(([process, count]) => `${process} wrote ${count} warnings within a second`);
  }
}
