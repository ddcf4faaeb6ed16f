/** Fields of a protobuf message by number, in order: a number or 64 bits as they are, or bytes. */
export type Fields = ReadonlyMap<number, readonly (bigint | Buffer)[]>;

/** Reads one level of a protobuf message. @throws RangeError when the bytes end within a field. */
export function readProtobuf(bytes: Buffer): Fields {
  const fields = new Map<number, (bigint | Buffer)[]>();
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes.readUInt8(at++);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const take = (length: number): Buffer => {
    if (at + length > bytes.length) throw new RangeError('the message is cut');
    at += length;
    return bytes.subarray(at - length, at);
  };
  const read = (wireType: number): bigint | Buffer => {
    switch (wireType) {
      case 0:
        return varint();
      case 1:
        return take(8).readBigUInt64LE();
      case 2:
        return take(Number(varint()));
      case 5:
        return BigInt(take(4).readUInt32LE());
      default:
        throw new RangeError(`wire type ${wireType}`);
    }
  };
  while (at < bytes.length) {
    const tag = Number(varint());
    const values = fields.get(tag >> 3) ?? [];
    fields.set(tag >> 3, values);
    values.push(read(tag & 7));
  }
  return fields;
}
