// The parts of an answer that comes bit by bit (multipart/mixed), each as soon as it is whole.

/** Yield the headers (a Map, by lower-case names) and the body of each part. */
export async function* partsOf(response) {
  const bytes = new Bytes(response.body.getReader());
  try {
    while (!(await bytes.line()).endsWith("--")) {
      const headers = new Map();
      for (let line = await bytes.line(); line !== ""; line = await bytes.line()) {
        const colon = line.indexOf(":");
        headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
      }
      const body = await bytes.take(Number(headers.get("content-length")));
      await bytes.line();
      yield { headers, body };
    }
  } finally {
    await bytes.cancel();
  }
}

/** Bytes of a body, taken by lines or by their number; throws TypeError when they end too soon. */
class Bytes {
  #reader;
  #rest = new Uint8Array(0);

  constructor(reader) {
    this.#reader = reader;
  }

  async take(count) {
    await this.#have(count);
    const taken = this.#rest.slice(0, count);
    this.#rest = this.#rest.subarray(count);
    return taken;
  }

  async line() {
    let end = this.#rest.indexOf(10);
    while (end < 0) {
      const from = this.#rest.length;
      await this.#have(from + 1);
      end = this.#rest.indexOf(10, from);
    }
    return new TextDecoder().decode(await this.take(end + 1)).trimEnd();
  }

  cancel() {
    return this.#reader.cancel().catch(() => undefined);
  }

  async #have(count) {
    const found = [this.#rest];
    for (let have = this.#rest.length; have < count;) {
      const { done, value } = await this.#reader.read();
      if (done) throw new TypeError("the stream was cut off");
      found.push(value);
      have += value.length;
    }
    if (found.length > 1) this.#rest = new Uint8Array(await new Blob(found).arrayBuffer());
  }
}
