/** A JSON object with the key order of its source text. */
export type JsonObject = Map<string, JsonValue>;

/**
 * A JSON value as a Python program sees it: `bigint` is an int, `number` is a float, so `1` and `1.0` stay apart
 * and digits beyond 2^53 survive.
 */
export type JsonValue = null | boolean | bigint | number | string | JsonValue[] | JsonObject;
