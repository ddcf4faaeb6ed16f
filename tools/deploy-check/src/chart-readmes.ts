import { isMap, isScalar, type Pair, parseDocument, stringify } from 'yaml';
import { textOf, yamlOf } from './deploy-files.ts';

/** One key of values.yaml. */
interface ValueRow {
  readonly key: string;
  readonly meaning: string;
  readonly value: string;
}

/** A default is shown up to this length. */
const shown = 60;

/** README.md of a chart: what Chart.yaml says of it, and its values with the comments of values.yaml. */
export function chartReadmeText(chart: string): string {
  const { description, dependencies = [] } = yamlOf(`deploy/charts/${chart}/Chart.yaml`) as {
    description: string;
    dependencies?: { name: string; alias?: string; condition?: string }[];
  };
  const parts = dependencies
    .filter(({ name }) => name !== 'common')
    .map(({ name, alias = name, condition }) => [
      `\`${name}\``,
      `\`${alias}\``,
      condition ? `\`${condition}\`` : 'always',
    ]);
  const rows = valueRows(textOf(`deploy/charts/${chart}/values.yaml`)).map(
    ({ key, value, meaning }) => [`\`${key}\``, value, meaning],
  );
  return [
    `# ${chart}`,
    description,
    'Written from `Chart.yaml` and `values.yaml` (`node --conditions=@llm-d/source tools/deploy-check/src/main.ts`). How to install it: [on Kubernetes](../../../docs/deployment/kubernetes.md).',
    ...(parts.length > 0 ? [`## Parts\n\n${table(['Chart', 'Values', 'When'], parts)}`] : []),
    `## Values\n\n${table(['Key', 'Default', 'Meaning'], rows)}`,
  ]
    .join('\n\n')
    .concat('\n');
}

/** The keys of a values.yaml: a mapping that is written in lines is opened, one in braces is a value. */
export function valueRows(text: string): ValueRow[] {
  const { contents } = parseDocument(text);
  return isMap(contents) ? rowsOf(contents.items, '', true) : [];
}

function rowsOf(items: readonly Pair[], above: string, isTop: boolean): ValueRow[] {
  return items.flatMap((item, index) => {
    const key = above + String(isScalar(item.key) ? item.key.value : item.key);
    // The first comment of a mapping belongs to the mapping; at the top that is the file's own.
    const isFirst = index === 0;
    const comment = isScalar(item.key) ? (item.key.commentBefore ?? '') : '';
    const meaning = isTop && isFirst ? lastParagraph(comment) : comment;
    const { value } = item;
    if (isMap(value) && value.items.length > 0 && !value.flow) {
      const inner = rowsOf(value.items, `${key}.`, false);
      const head = { key, value: '', meaning: oneLine(meaning) };
      const first = value.commentBefore;
      const [next, ...rest] = inner;
      const opened =
        next && first
          ? [{ ...next, meaning: oneLine(`${first}\n${next.meaning}`) }, ...rest]
          : inner;
      return head.meaning === '' ? opened : [head, ...opened];
    }
    return [{ key, value: shownValue(value), meaning: oneLine(meaning) }];
  });
}

const lastParagraph = (comment: string): string => comment.split(/\n\s*\n/).at(-1) ?? '';

const oneLine = (comment: string): string =>
  comment
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join(' ');

function shownValue(value: unknown): string {
  const text = stringify(value, { collectionStyle: 'flow', lineWidth: 0 }).trim();
  if (text === '""' || text === "''") return '';
  return text.length > shown || text.includes('\n') ? 'see values.yaml' : `\`${text}\``;
}

/** A table as Prettier writes it. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const escaped = (cell: string): string => cell.replaceAll('|', '\\|').replaceAll('<', '\\<');
  const cells = [head, ...rows].map((row) => row.map(escaped));
  const widths = head.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[], fill = ' '): string =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0, fill)).join(' | ')} |`;
  const [titles = [], ...body] = cells;
  return [
    line(titles),
    line(
      head.map(() => ''),
      '-',
    ),
    ...body.map((row) => line(row)),
  ].join('\n');
}
