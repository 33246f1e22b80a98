// What a call has given: texts and numbers as a table, boxes on the image, tensors folded.

import { draw, make } from "./dom.js";
import { cure } from "./api.js";
import { boxesOf, imageWithBoxes } from "./over_image.js";

const MOST_ROWS = 200,
  MOST_VALUES = 500,
  MOST_EVENTS = 1000,
  MOST_IN_LINE = 16;
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Return the elements that show outputs; `images` are the files that were sent. */
export function shown(outputs, types, images) {
  const boxes = images.length === 1 ? outputs.find((one) => boxesOf(one) !== null) : undefined;
  const columns = columnsOf(outputs);
  const found = [];
  let light = () => undefined;
  const table = columns.length > 0 ? tableOf(columns, (row) => light(row)) : null;
  if (boxes !== undefined) {
    const texts = columns.find(
      (one) => one.datatype === "BYTES" && one.shape[0] === boxes.shape[0],
    );
    const words = texts === undefined ? null : Array.from(texts.values, textOf);
    const over = imageWithBoxes(images[0], boxesOf(boxes), words, (row) => table?.light(row));
    light = over.light;
    found.push(over.frame);
  }
  if (table !== null) found.push(table.element);
  const inTable = new Set(columns);
  for (const output of outputs)
    if (!inTable.has(output)) found.push(one(output, types.get(output.name)));
  if (found.length === 0) found.push(make("p", {}, "Nothing was given."));
  return found;
}

/** Outputs of as many values as each other, which stand side by side: texts, and what goes along. */
function columnsOf(outputs) {
  const flat = outputs.filter(
    (one) => one.shape.length === 1 || (one.shape.length === 2 && one.shape[1] === 1),
  );
  const texts =
    flat.find((one) => one.datatype === "BYTES" && one.shape[0] !== 1) ??
    flat.find(
      (one, index) =>
        one.shape[0] !== 1 &&
        flat.some((other, at) => at !== index && other.shape[0] === one.shape[0]),
    );
  return texts === undefined ? [] : flat.filter((one) => one.shape[0] === texts.shape[0]);
}

function tableOf(columns, point) {
  const count = columns[0].shape[0];
  const heads = columns.map((one) => make("th", { scope: "col" }, one.name));
  const rows = Array.from({ length: Math.min(count, MOST_ROWS) }, (_, row) => {
    const cells = columns.map((one) =>
      make("td", { className: one.datatype }, short(one.values[row])),
    );
    const element = make("tr", {}, make("th", { scope: "row" }, String(row + 1)), ...cells);
    element.addEventListener("pointerenter", () => point(row));
    element.addEventListener("pointerleave", () => point(null));
    return element;
  });
  const head = make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "#"), ...heads));
  const caption = make(
    "caption",
    {},
    count === 1 ? "1 row" : `${count} rows`,
    count > MOST_ROWS ? `, the first ${MOST_ROWS} of them` : "",
  );
  const table = make("table", { className: "values" }, caption, head, make("tbody", {}, ...rows));
  const scroll = { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Results" };
  return {
    element: make("div", scroll, table),
    light: (row) => rows.forEach((element, at) => element.classList.toggle("lit", at === row)),
  };
}

function one(output, type) {
  const { name, datatype, shape, values } = output;
  const title = [make("b", {}, name), " ", make("code", {}, `${datatype}[${shape.join(", ")}]`)];
  if (values.length === 1) {
    const image = datatype === "BYTES" ? imageIn(values[0], name) : null;
    return make(
      "div",
      { className: "output" },
      make("p", {}, ...title),
      image ?? make("p", { className: "value" }, short(values[0])),
    );
  }
  const pixels =
    type !== undefined && /^u8\[[^,]+, [^,]+(, [13])?\]/.test(type) ? canvasOf(output) : null;
  const chart =
    pixels === null && /^(FP|BF)/.test(datatype) && shape.length === 1 ? chartOf(values) : null;
  const summary = make(
    "summary",
    {},
    ...title,
    " ",
    make("span", { className: "hint" }, rangeOf(output)),
  );
  const list = Array.from(values.slice(0, MOST_VALUES), short).join(", ");
  const more = values.length > MOST_VALUES ? `, … ${values.length - MOST_VALUES} more` : "";
  return make(
    "div",
    { className: "output" },
    pixels ?? chart,
    make("details", {}, summary, make("p", { className: "value" }, list + more)),
  );
}

function rangeOf({ datatype, values }) {
  if (datatype === "BYTES" || datatype === "BOOL" || values.length === 0)
    return `${values.length} values`;
  const numbers = Array.from(values, Number).filter(Number.isFinite);
  if (numbers.length === 0) return "no finite value";
  const least = numbers.reduce((a, b) => Math.min(a, b)),
    most = numbers.reduce((a, b) => Math.max(a, b));
  return `${short(least)} to ${short(most)}`;
}

/** Return an image that an output's bytes are; null where they are none. */
function imageIn(bytes, name) {
  const begins = (...start) => start.every((byte, index) => bytes[index] === byte);
  const type = begins(0x89, 0x50, 0x4e, 0x47)
    ? "image/png"
    : begins(0xff, 0xd8, 0xff)
      ? "image/jpeg"
      : "";
  if (type === "") return null;
  const image = make("img", { alt: `output ${name}`, className: "image" });
  const url = URL.createObjectURL(new Blob([bytes], { type }));
  image.addEventListener("load", () => URL.revokeObjectURL(url));
  image.src = url;
  return image;
}

/** Draw pixels [height, width] or [height, width, 1 or 3], blue first as images are decoded. */
function canvasOf({ name, shape, values }) {
  const [height, width, channels = 1] = shape;
  if (height * width === 0 || height * width > 1 << 25) return null;
  const canvas = make("canvas", {
    width,
    height,
    className: "image",
    role: "img",
    "aria-label": `output ${name}`,
  });
  const data = new ImageData(width, height);
  for (let pixel = 0; pixel < height * width; pixel++) {
    for (let place = 0; place < 3; place++) {
      data.data[pixel * 4 + place] = values[pixel * channels + (channels === 1 ? 0 : 2 - place)];
    }
    data.data[pixel * 4 + 3] = 255;
  }
  canvas.getContext("2d").putImageData(data, 0, 0);
  return canvas;
}

/** Draw a series of numbers as a line. */
function chartOf(values) {
  const numbers = Array.from(values, Number);
  if (numbers.length < 3 || !numbers.every(Number.isFinite)) return null;
  const least = Math.min(0, ...numbers.slice(0, 5000)),
    most = Math.max(...numbers.slice(0, 5000), least + 1e-9);
  const points = numbers
    .slice(0, 5000)
    .map(
      (value, index, all) =>
        `${(index / (all.length - 1)) * 600} ${78 - ((value - least) / (most - least)) * 76}`,
    );
  const chart = {
    class: "chart",
    viewBox: "0 0 600 80",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  };
  return draw("svg", chart, draw("polyline", { points: points.join(" ") }));
}

/** Return an element of BYTES as text, or as hexadecimal digits where it is none. */
export function textOf(bytes) {
  if (typeof bytes === "string") return bytes;
  try {
    return decoder.decode(bytes);
  } catch {
    const digits = Array.from(bytes.slice(0, 32), (byte) => byte.toString(16).padStart(2, "0"));
    return `${bytes.length} bytes: ${digits.join(" ")}${bytes.length > 32 ? " …" : ""}`;
  }
}

/** Return the values of an output on one line: a single one as it is, more in brackets. */
function valuesOf({ datatype, shape, values }) {
  const shownAs = datatype === "BYTES" ? (value) => JSON.stringify(textOf(value)) : short;
  const list = Array.from(values.slice(0, MOST_IN_LINE), shownAs).join(", ");
  if (shape.length === 0 || (shape.length === 1 && values.length === 1)) return list;
  return `[${list}${values.length > MOST_IN_LINE ? `, … ${values.length} in all` : ""}]`;
}

function short(value) {
  if (value instanceof Uint8Array || typeof value === "string") return textOf(value);
  if (Object.is(value, -0)) return "-0";
  if (typeof value === "number")
    return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(5)));
  return String(value);
}

/** Return the elements of a failure: its status, what the server said, and what can be done. */
export function failure(error) {
  if (error.name === "AbortError") return [make("p", { className: "cancelled" }, "Cancelled.")];
  const [status, help] =
    error.status === undefined
      ? ["No answer", "The server cannot be reached: is it running?"]
      : [`Refused with ${error.status}`, cure(error)];
  return [
    make(
      "div",
      { className: "failure", role: "alert" },
      make("p", {}, make("b", {}, status)),
      make("p", { className: "value" }, error.message),
      help === "" ? null : make("p", {}, help),
    ),
  ];
}

/** Shows what a stream emits, response by response. */
export class Events {
  #list = make("ol", { className: "events" });
  #text = make("p", { className: "value" });
  element = make("div", {}, this.#text, this.#list);
  count = 0;

  add(outputs) {
    this.count += 1;
    const texts = outputs.filter((one) => one.datatype === "BYTES" && one.values.length === 1);
    const image = texts.length === 1 ? imageIn(texts[0].values[0], texts[0].name) : null;
    if (texts.length === 1 && image === null) this.#text.append(textOf(texts[0].values[0]));
    if (this.count > MOST_EVENTS) return;
    const told = outputs.map((one) => `${one.name}: ${valuesOf(one)}`).join(", ");
    this.#list.append(make("li", {}, make("code", {}, told), image));
  }
}
