// From counts, asked for again and again, to what happens in a second.

const WINDOW = 10_000; // milliseconds

/** The latest counts of one version of a pipeline. */
export class Samples {
  #kept = [];

  /** Take in an answer of M/stages; those of another plan, or of another process, are forgotten. */
  add(now, figures) {
    const last = this.#kept.at(-1);
    if (last !== undefined && !continues(last.figures, figures)) this.#kept = [];
    this.#kept.push({ now, figures });
    while (this.#kept.length > 2 && now - this.#kept[1].now >= WINDOW) this.#kept.shift();
  }

  /** How much of something happens in a second; null before two answers are there. */
  rate(read) {
    const first = this.#kept[0],
      last = this.#kept.at(-1);
    if (first === last) return null;
    const before = read(first.figures),
      after = read(last.figures);
    return before === undefined ? null : ((after - before) / (last.now - first.now)) * 1000;
  }

  /** How much of one there was for each of another, lately, else since the start; null for none. */
  ratio(readMany, readEach) {
    const first = this.#kept[0]?.figures,
      last = this.#kept.at(-1)?.figures;
    if (last === undefined) return null;
    const each = readEach(last) - (readEach(first) ?? 0),
      all = readEach(last);
    if (each > 0) return (readMany(last) - readMany(first)) / each;
    return all > 0 ? readMany(last) / all : null;
  }

  get last() {
    return this.#kept.at(-1)?.figures;
  }
}

function continues(before, after) {
  return (
    before.name === after.name &&
    before.version === after.version &&
    before.hash === after.hash &&
    before.seconds <= after.seconds
  );
}

export function perSecond(rate) {
  if (rate === null) return "–";
  if (rate === 0) return "0/s";
  return `${rate < 10 ? rate.toFixed(1) : Math.round(rate).toLocaleString("en")}/s`;
}

export function seconds(nanoseconds) {
  if (nanoseconds === null || nanoseconds === undefined) return "–";
  if (nanoseconds < 1e6) return `${digits(nanoseconds / 1e3)} µs`;
  return nanoseconds < 1e9 ? `${digits(nanoseconds / 1e6)} ms` : `${digits(nanoseconds / 1e9)} s`;
}

export function number(value) {
  return value === null ? "–" : digits(value);
}

function digits(value) {
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(value >= 10 ? 3 : 2)));
}

/** Return a default as it was written: a number of single precision has no more digits than 7. */
export function asWritten(text, type) {
  return /^f(16|32)$/.test(type) && /\d/.test(text)
    ? String(Number(Number(text).toPrecision(7)))
    : text;
}

export const total = (counts) => Object.values(counts).reduce((sum, count) => sum + count, 0);
