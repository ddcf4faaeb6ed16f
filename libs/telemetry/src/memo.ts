/** Makes a value for each key once. Keys must come from a closed set: nothing is ever forgotten. */
export function memo<Key, Value>(create: (key: Key) => Value): (key: Key) => Value {
  const known = new Map<Key, Value>();
  return (key) => {
    const found = known.get(key);
    if (found !== undefined) return found;
    const created = create(key);
    known.set(key, created);
    return created;
  };
}
