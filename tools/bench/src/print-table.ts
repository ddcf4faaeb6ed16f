/** Prints rows of texts below a head, in columns as wide as their widest text; all but the first are set right. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const line = (row: readonly string[]): string =>
    widths
      .map((width, i) => (i === 0 ? (row[i] ?? '').padEnd(width) : (row[i] ?? '').padStart(width)))
      .join('  ');
  for (const row of [head, widths.map((width) => '-'.repeat(width)), ...rows]) {
    console.log(line(row));
  }
}
