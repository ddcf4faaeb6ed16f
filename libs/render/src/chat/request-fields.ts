import { badRequest, invalidField, RenderError } from '../errors.ts';
import { type JsonObject, type JsonValue } from '../json/json-value.ts';
import { JsonSyntaxError } from '../json/json-syntax-error.ts';
import { parseJson } from '../json/parse-json.ts';

/** Typed access to the fields of a request body; absent and null are the same, other types are a 400. */
export class RequestFields {
  private readonly body: JsonObject;

  constructor(body: JsonObject) {
    this.body = body;
  }

  /** Parses the bytes of a request; throws the 400 that vLLM gives for what is not a JSON object. */
  static parse(bytes: Uint8Array): RequestFields {
    if (bytes.length === 0) throw invalidField('body', 'Field required');
    const body = parseBody(bytes);
    if (!(body instanceof Map)) throw invalidField('body', 'Input should be a valid dictionary');
    return new RequestFields(body);
  }

  has(name: string): boolean {
    return this.body.has(name);
  }

  /** The value as it stands, undefined when the field is absent or null. */
  get(name: string): Exclude<JsonValue, null> | undefined {
    return this.body.get(name) ?? undefined;
  }

  text(name: string): string | undefined {
    const value = this.get(name);
    if (value === undefined || typeof value === 'string') return value;
    throw invalidField(`body.${name}`, 'Input should be a valid string');
  }

  boolean(name: string): boolean | undefined {
    const value = this.get(name);
    if (value === undefined || typeof value === 'boolean') return value;
    throw invalidField(`body.${name}`, 'Input should be a valid boolean');
  }

  integer(name: string): bigint | undefined {
    const value = this.get(name);
    if (value === undefined || typeof value === 'bigint') return value;
    if (typeof value === 'number' && Number.isInteger(value)) return BigInt(value);
    throw invalidField(`body.${name}`, 'Input should be a valid integer');
  }

  float(name: string): number | undefined {
    const value = this.get(name);
    if (value === undefined) return undefined;
    if (typeof value === 'number' || typeof value === 'bigint') return Number(value);
    throw invalidField(`body.${name}`, 'Input should be a valid number');
  }

  object(name: string): JsonObject | undefined {
    const value = this.get(name);
    if (value === undefined || value instanceof Map) return value;
    throw invalidField(`body.${name}`, 'Input should be a valid dictionary');
  }

  list(name: string): JsonValue[] | undefined {
    const value = this.get(name);
    if (value === undefined || Array.isArray(value)) return value;
    throw invalidField(`body.${name}`, 'Input should be a valid list');
  }

  integers(name: string): bigint[] | undefined {
    return this.list(name)?.map((value, at) => {
      if (typeof value === 'bigint') return value;
      throw invalidField(`body.${name}.${at}`, 'Input should be a valid integer');
    });
  }

  texts(name: string): string[] | undefined {
    return this.list(name)?.map((value, at) => {
      if (typeof value === 'string') return value;
      throw invalidField(`body.${name}.${at}`, 'Input should be a valid string');
    });
  }
}

function parseBody(bytes: Uint8Array): JsonValue {
  try {
    return parseJson(bytes);
  } catch (cause) {
    if (!(cause instanceof JsonSyntaxError)) throw cause;
    const field = cause.nonFiniteField;
    if (field !== undefined) {
      throw badRequest(`${field} must be a finite number. (parameter=${field})`, field, { cause });
    }
    throw new RenderError(
      400,
      'Bad Request',
      `1 validation error:\n  JSON decode error: ${cause.message} (char ${cause.offset})`,
      `body.${cause.offset}`,
      { cause },
    );
  }
}
