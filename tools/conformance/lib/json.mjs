/** JSON helpers: a lossless reader, comparison with matchers, and a compact writer. */

/** Parses valid JSON into nodes that remember where they lie in the text. */
export function readTree(text) {
  JSON.parse(text);
  let at = 0;
  const space = () => {
    while (at < text.length && ' \t\n\r'.includes(text[at])) at++;
  };
  const string = () => {
    const start = at++;
    while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
    at++;
    return JSON.parse(text.slice(start, at));
  };
  const value = () => {
    space();
    const start = at;
    const node = { kind: 'scalar', start, end: start };
    if (text[at] === '{') {
      node.kind = 'object';
      node.members = [];
      at++;
      for (space(); text[at] !== '}'; space()) {
        if (text[at] === ',') at++;
        space();
        const key = string();
        space();
        at++;
        node.members.push({ key, node: value() });
      }
      at++;
    } else if (text[at] === '[') {
      node.kind = 'array';
      node.items = [];
      at++;
      for (space(); text[at] !== ']'; space()) {
        if (text[at] === ',') at++;
        node.items.push(value());
      }
      at++;
    } else if (text[at] === '"') {
      string();
    } else {
      while (at < text.length && !',]} \t\n\r'.includes(text[at])) at++;
    }
    node.end = at;
    node.raw = text.slice(start, at);
    return node;
  };
  return value();
}

/** The last member of that name, as every JSON parser reads it. */
export function member(node, ...keys) {
  let here = node;
  for (const key of keys) here = here?.members?.findLast((m) => m.key === key)?.node;
  return here;
}

/** Lists the places where `after` carries the same value as `before` in other bytes, or in another key order. */
export function changedBytes(before, after, path = '', found = []) {
  if (before === undefined || after === undefined || before.raw === after.raw) return found;
  if (equal(JSON.parse(before.raw), JSON.parse(after.raw))) {
    found.push(
      `${path || '(whole body)'}: same value in other bytes: ${clip(before.raw)} became ${clip(after.raw)}`,
    );
    return found;
  }
  if (before.kind === 'object' && after.kind === 'object') {
    const kept = unique(before.members.map((m) => m.key)).filter(
      (key) => member(after, key) !== undefined,
    );
    // A member with a new value may stand elsewhere; the others keep their order.
    const untouched = kept.filter((key) => member(after, key).raw === member(before, key).raw);
    const order = unique(after.members.map((m) => m.key)).filter((key) => untouched.includes(key));
    if (untouched.join('\0') !== order.join('\0'))
      found.push(`${path || '(whole body)'}: key order ${untouched} became ${order}`);
    for (const key of kept)
      changedBytes(member(before, key), member(after, key), path ? `${path}.${key}` : key, found);
  } else if (
    before.kind === 'array' &&
    after.kind === 'array' &&
    before.items.length === after.items.length
  ) {
    before.items.forEach((item, index) =>
      changedBytes(item, after.items[index], `${path}[${index}]`, found),
    );
  }
  return found;
}

const unique = (list) => [...new Set(list)];

export function equal(left, right) {
  if (left === right) return true;
  if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null)
    return false;
  if (Array.isArray(left) !== Array.isArray(right)) return false;
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && equal(left[key], right[key]))
  );
}

const matchers = {
  $any: () => true,
  $type: (wanted, got) =>
    (got === null ? 'null' : Array.isArray(got) ? 'array' : typeof got) === wanted,
  $oneOf: (options, got) => options.some((option) => differences(option, got).length === 0),
  $optional: (wanted, got) => got === undefined || differences(wanted, got).length === 0,
  $regex: (pattern, got) => typeof got === 'string' && new RegExp(pattern, 'su').test(got),
  $contains: (parts, got) => [parts].flat().every((part) => String(got).includes(part)),
  $integer: ([low, high], got) => Number.isInteger(got) && got >= low && got <= high,
};

const matcherOf = (wanted) => {
  if (typeof wanted !== 'object' || wanted === null) return undefined;
  const keys = Object.keys(wanted);
  return keys.length === 1 && Object.hasOwn(matchers, keys[0]) ? keys[0] : undefined;
};

/** Compares a wanted value (which may hold matchers) with what came; returns readable lines. */
export function differences(wanted, got, path = '') {
  const name = matcherOf(wanted);
  if (name)
    return matchers[name](wanted[name], got)
      ? []
      : [`${path}: wanted ${clip(show(wanted))}, got ${clip(show(got))}`];
  const isObject = (v) => typeof v === 'object' && v !== null;
  if (!isObject(wanted) || !isObject(got) || Array.isArray(wanted) !== Array.isArray(got)) {
    return equal(wanted, got)
      ? []
      : [`${path}: wanted ${clip(show(wanted))}, got ${clip(show(got))}`];
  }
  const lines = [];
  if (Array.isArray(wanted) && wanted.length !== got.length) {
    return [
      `${path}: wanted ${wanted.length} elements ${clip(show(wanted))}, got ${got.length} ${clip(show(got))}`,
    ];
  }
  for (const key of unique([...Object.keys(wanted), ...Object.keys(got)])) {
    const here = Array.isArray(wanted) ? `${path}[${key}]` : path ? `${path}.${key}` : key;
    if (!Object.hasOwn(wanted, key)) lines.push(`${here}: not wanted, got ${clip(show(got[key]))}`);
    else lines.push(...differences(wanted[key], got[key], here));
  }
  return lines;
}

export const show = (value) => (value === undefined ? '(absent)' : JSON.stringify(value));
export const clip = (text, size = 220) =>
  text.length > size ? `${text.slice(0, size)}... (${text.length} characters)` : text;

/** Key order free text of a value, for sorting and grouping. */
export function canonical(value) {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined';
  if (Array.isArray(value)) return `[${value.map(canonical)}]`;
  return `{${Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`)}}`;
}

/** Writes JSON with one line for whatever fits, so that case files stay readable. */
export function pretty(value, indent = 0, width = 140) {
  const flat = oneLine(value);
  if (flat.length + indent <= width || typeof value !== 'object' || value === null) return flat;
  const pad = ' '.repeat(indent + 2);
  const close = ' '.repeat(indent);
  if (Array.isArray(value)) {
    return `[\n${value.map((item) => pad + pretty(item, indent + 2, width)).join(',\n')}\n${close}]`;
  }
  const rows = Object.entries(value).filter(([, item]) => item !== undefined);
  return `{\n${rows.map(([key, item]) => `${pad}${JSON.stringify(key)}: ${pretty(item, indent + 2, width)}`).join(',\n')}\n${close}}`;
}

function oneLine(value) {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(oneLine).join(', ')}]`;
  const rows = Object.entries(value).filter(([, item]) => item !== undefined);
  return rows.length === 0
    ? '{}'
    : `{ ${rows.map(([key, item]) => `${JSON.stringify(key)}: ${oneLine(item)}`).join(', ')} }`;
}

/** Deep merge: objects merge, null removes a key, everything else replaces. */
export function merge(base, overlay) {
  if (overlay === undefined) return structuredClone(base);
  const isPlain = (v) => typeof v === 'object' && v !== null && !Array.isArray(v);
  if (!isPlain(base) || !isPlain(overlay)) return structuredClone(overlay);
  const out = structuredClone(base);
  for (const [key, value] of Object.entries(overlay)) {
    if (value === null) delete out[key];
    else out[key] = merge(out[key], value);
  }
  return out;
}
