/** Lists and objects that fit into this many columns stay on one line. */
const lineWidth = 100;

/**
 * Lays out JSON text for reading without decoding it: only blanks between tokens change, so that digits, escapes, the
 * order of members and duplicates stay as they are in the text.
 */
export function formatJson(text: string): string {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? [];
  let at = 0;
  const next = (): string => tokens[at++] ?? '';

  const value = (indent: string, room: number): string => {
    const open = next();
    if (open !== '{' && open !== '[') return open;
    const close = open === '{' ? '}' : ']';
    const inner = `${indent}  `;
    const items: string[] = [];
    while (at < tokens.length && tokens[at] !== close) {
      if (tokens[at] === ',') at++;
      let name = '';
      if (open === '{') {
        name = `${next()}: `;
        at++;
      }
      items.push(name + value(inner, lineWidth - inner.length - name.length));
    }
    at++;
    if (items.length === 0) return open + close;
    const pad = open === '{' ? ' ' : '';
    const line = `${open}${pad}${items.join(', ')}${pad}${close}`;
    if (line.length <= room && !line.includes('\n')) return line;
    return `${open}\n${items.map((item) => inner + item).join(',\n')}\n${indent}${close}`;
  };
  return `${value('', lineWidth)}\n`;
}
