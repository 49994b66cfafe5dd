// The data of the page: compressed bytes -> a header and typed arrays. (Written by show/packing.py.)
//
// After decompression: the length of the header (uint32), the header (JSON), then the arrays one after the other. An array may be
// stored as differences, and is stored by planes: first the first byte of all its entries, then the second, and so on.

const KINDS = { f8: Float64Array, f4: Float32Array, i4: Int32Array, i2: Int16Array, i1: Int8Array, u1: Uint8Array };

export function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function joinPlanes(planes, size) {
  const n = planes.length / size;
  const bytes = new Uint8Array(planes.length);
  for (let k = 0; k < size; k++) {
    for (let i = 0, at = k * n; i < n; i++) bytes[i * size + k] = planes[at + i];
  }
  return bytes;
}

function sumUp(array) {
  for (let i = 1; i < array.length; i++) array[i] += array[i - 1];
}

export async function unpack(packed) {
  const bytes = await inflate(packed);
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const arrays = {};
  let at = 4 + length;
  for (const { name, kind, count, deltas } of header.arrays) {
    const Kind = KINDS[kind];
    const size = Kind.BYTES_PER_ELEMENT;
    arrays[name] = new Kind(joinPlanes(bytes.subarray(at, at + count * size), size).buffer);
    if (deltas) sumUp(arrays[name]);
    at += count * size;
  }
  return { header, arrays };
}
