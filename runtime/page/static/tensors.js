// Values as they travel: JSON with binary tensors behind it, both ways.

/** Return the body and headers of a request. An input has `data` (JSON text) or `blobs`. */
export function encodeRequest(inputs, parameters) {
  const parts = [];
  const tensors = inputs.map((input) => {
    const head =
      `"name":${JSON.stringify(input.name)},"datatype":"${input.datatype}",` +
      `"shape":${JSON.stringify(input.shape)}`;
    if (input.blobs === undefined) return `{${head},"data":${input.data}}`;
    let size = 0;
    for (const blob of input.blobs) {
      parts.push(new Uint8Array(lengthPrefix(blob.size)), blob);
      size += 4 + blob.size;
    }
    return `{${head},"parameters":{"binary_data_size":${size}}}`;
  });
  const asked = JSON.stringify({ ...parameters, binary_data_output: true });
  const json = new TextEncoder().encode(`{"inputs":[${tensors.join(",")}],"parameters":${asked}}`);
  return {
    body: new Blob([json, ...parts]),
    headers: {
      "Content-Type": "application/octet-stream",
      "Inference-Header-Content-Length": String(json.length),
    },
  };
}

/** Return the four bytes that say how long an element of BYTES is. */
export function lengthPrefix(length) {
  return [0, 8, 16, 24].map((shift) => (length >>> shift) & 255);
}

/** Return the version and the outputs of an answer: name, datatype, shape and values. */
export async function decodeResponse(response) {
  const length = response.headers.get("inference-header-content-length");
  return decodeAnswer(await response.arrayBuffer(), length);
}

/** Return them of its bytes, of which so many are its JSON; null or undefined for all. */
export function decodeAnswer(body, header) {
  const length = Number(header ?? body.byteLength);
  const answer = JSON.parse(new TextDecoder().decode(new Uint8Array(body, 0, length)));
  let place = length;
  const outputs = (answer.outputs ?? []).map(({ name, datatype, shape, data, parameters }) => {
    const size = parameters?.binary_data_size;
    if (size === undefined) return { name, datatype, shape, values: (data ?? []).flat(Infinity) };
    const values = READERS[datatype](body.slice(place, place + size));
    place += size;
    return { name, datatype, shape, values };
  });
  return { version: answer.model_version, outputs };
}

function elements(buffer) {
  const view = new DataView(buffer);
  const found = [];
  for (let place = 0; place < buffer.byteLength;) {
    const length = view.getUint32(place, true);
    found.push(new Uint8Array(buffer, place + 4, length));
    place += 4 + length;
  }
  return found;
}

function halves(buffer) {
  return Array.from(new Uint16Array(buffer), (bits) => {
    const sign = bits & 0x8000 ? -1 : 1,
      exponent = (bits >> 10) & 31,
      rest = bits & 1023;
    if (exponent === 0) return sign * rest * 2 ** -24;
    if (exponent === 31) return rest ? NaN : sign * Infinity;
    return sign * (1 + rest / 1024) * 2 ** (exponent - 15);
  });
}

function brains(buffer) {
  return new Float32Array(Uint32Array.from(new Uint16Array(buffer), (bits) => bits << 16).buffer);
}

const READERS = {
  BOOL: (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte !== 0),
  UINT8: (buffer) => new Uint8Array(buffer),
  UINT16: (buffer) => new Uint16Array(buffer),
  UINT32: (buffer) => new Uint32Array(buffer),
  UINT64: (buffer) => new BigUint64Array(buffer),
  INT8: (buffer) => new Int8Array(buffer),
  INT16: (buffer) => new Int16Array(buffer),
  INT32: (buffer) => new Int32Array(buffer),
  INT64: (buffer) => new BigInt64Array(buffer),
  FP16: halves,
  BF16: brains,
  FP32: (buffer) => new Float32Array(buffer),
  FP64: (buffer) => new Float64Array(buffer),
  BYTES: elements,
};
