// A field for each input of a model: what it may hold, and what of it is sent.

import { make, say } from "./dom.js";

/** What was typed is no value of an input. */
export class FieldError extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

const WHOLE = /^(U?INT)(8|16|32|64)$/;

/** Return the field of an input, of M and M/config: its element, `read` and `file`. */
export function fieldOf(input, rows) {
  if (input.type.startsWith("bytes") && input.datatype === "BYTES") return fileField(input, rows);
  return input.scalar && !rows ? valueField(input) : tensorField(input, rows);
}

/** A single text, number or boolean. */
function valueField(input) {
  const id = `input-${input.name}`;
  const control = controlOf(input, id);
  const field = framed(input, id, control);
  field.read = () => {
    const text = control.value;
    if ((input.datatype !== "BYTES" && text.trim() === "") || (text === "" && input.optional)) {
      if (input.optional) return null;
      throw new FieldError(field, "a value is needed");
    }
    const data =
      input.datatype === "BYTES" ? JSON.stringify(text) : literal(field, input, text.trim());
    return {
      name: input.name,
      datatype: input.datatype,
      shape: [1],
      data: `[${data}]`,
      plain: data,
    };
  };
  return field;
}

function controlOf(input, id) {
  const hint = input.standard === "" ? "" : input.standard;
  if (input.datatype === "BYTES") {
    return make("textarea", { id, rows: 2, placeholder: hint, spellcheck: false });
  }
  if (input.datatype === "BOOL") {
    const choices = input.optional ? [["", hint || "as it is by default"]] : [];
    const control = make("select", { id });
    for (const [value, text] of [...choices, ["true", "true"], ["false", "false"]]) {
      control.append(make("option", { value }, text));
    }
    return control;
  }
  return make("input", { id, inputMode: "decimal", placeholder: hint, autocomplete: "off" });
}

/** Return a number or boolean as JSON; whole numbers keep all of their digits. */
function literal(field, input, text) {
  if (input.datatype === "BOOL") {
    if (text === "true" || text === "false") return text;
    throw new FieldError(field, "this is true or false");
  }
  const whole = WHOLE.exec(input.datatype);
  if (whole ? !/^-?\d+$/.test(text) : !isNumber(text)) {
    throw new FieldError(field, whole ? "this is a whole number" : "this is a number");
  }
  if (whole) return String(BigInt(text));
  return Object.is(Number(text), -0) ? "-0.0" : String(Number(text));
}

const isNumber = (text) => text !== "" && Number.isFinite(Number(text));

/** A tensor, or the rows of a batch, as nested lists in JSON. */
function tensorField(input, rows) {
  const id = `input-${input.name}`;
  const known = input.shape.every((size) => size > 0);
  const small = known && input.shape.reduce((all, size) => all * size, 1) <= 16;
  const zero = input.datatype === "BYTES" ? '""' : input.datatype === "BOOL" ? "false" : "0";
  const control = make("textarea", {
    id,
    rows: 2,
    spellcheck: false,
    placeholder: input.standard,
    value: small && !input.optional ? filledWith(input.shape, zero) : "",
  });
  const how = known
    ? "nested lists in JSON; one value alone fills all of it"
    : `nested lists in JSON${rows ? ", a row each" : ""}`;
  const field = framed(input, id, control, how);
  field.read = () => {
    const text = control.value.trim();
    if (text === "") {
      if (input.optional) return null;
      throw new FieldError(field, "a value is needed");
    }
    let value;
    try {
      value = JSON.parse(text);
    } catch (error) {
      throw new FieldError(field, `this is no JSON: ${error.message}`);
    }
    if (!Array.isArray(value) && known) {
      const data = filledWith(input.shape, text);
      return { name: input.name, datatype: input.datatype, shape: input.shape, data, plain: data };
    }
    if (!Array.isArray(value)) throw new FieldError(field, "this is a list, in brackets");
    const shape = shapeOf(value);
    while (shape.length < input.shape.length && input.shape.at(-1) === 1) shape.push(1);
    return { name: input.name, datatype: input.datatype, shape, data: text, plain: text };
  };
  return field;
}

function filledWith(shape, text) {
  if (shape.length === 0) return text;
  return `[${new Array(shape[0]).fill(filledWith(shape.slice(1), text)).join(", ")}]`;
}

function shapeOf(value) {
  const shape = [];
  for (let inner = value; Array.isArray(inner); inner = inner[0]) shape.push(inner.length);
  return shape;
}

/** Bytes: a file that is chosen, dropped or pasted; several for the rows of a batch. */
function fileField(input, rows) {
  const id = `input-${input.name}`;
  const several = rows || !input.scalar;
  const control = make("input", { id, type: "file", multiple: several });
  const shown = make("span", { className: "hint" });
  const field = framed(input, id, control, `choose, drop or paste ${several ? "files" : "a file"}`);
  field.element.classList.add("drop");
  field.element.append(shown);
  field.files = [];
  field.take = (files) => {
    field.files = several ? [...files] : [...files].slice(0, 1);
    say(
      shown,
      field.files.map((file) => `${file.name || "pasted"}, ${size(file.size)}`).join("; "),
    );
    field.element.dispatchEvent(new Event("taken"));
  };
  control.addEventListener("change", () => {
    if (control.files.length > 0) field.take(control.files);
  });
  field.element.addEventListener("dragover", (event) => {
    event.preventDefault();
    field.element.classList.add("over");
  });
  field.element.addEventListener("dragleave", () => field.element.classList.remove("over"));
  field.element.addEventListener("drop", (event) => {
    event.preventDefault();
    field.element.classList.remove("over");
    if (event.dataTransfer.files.length > 0) field.take(event.dataTransfer.files);
  });
  field.read = () => {
    if (field.files.length === 0) {
      if (input.optional) return null;
      throw new FieldError(field, "a file is needed");
    }
    const count = field.files.length,
      shape = input.shape.length > 1 ? [count, 1] : [count];
    return { name: input.name, datatype: "BYTES", shape, blobs: field.files };
  };
  return field;
}

function size(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  return bytes < 1 << 20
    ? `${Math.round(bytes / 1024)} KiB`
    : `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}

/** Return a field: its label, control, what goes into it, and room for what is wrong. */
function framed(input, id, control, how = "") {
  const wrong = make("p", { id: `${id}-wrong`, className: "wrong", hidden: true });
  const hint = [input.optional ? "may be left out" : "", how]
    .filter((text) => text !== "")
    .join("; ");
  const hints = hint === "" ? null : make("span", { id: `${id}-hint`, className: "hint" }, hint);
  control.setAttribute("aria-describedby", `${hints === null ? "" : `${id}-hint `}${id}-wrong`);
  const label = make("label", { for: id }, input.name, " ", make("code", {}, input.type));
  const element = make("div", { className: "field" }, label, control, hints, wrong);
  return {
    element,
    control,
    input,
    /** Say what is wrong with what is typed; null for nothing. */
    blame(message) {
      wrong.hidden = message === null;
      say(wrong, message ?? "");
      if (message === null) control.removeAttribute("aria-invalid");
      else control.setAttribute("aria-invalid", "true");
    },
  };
}
