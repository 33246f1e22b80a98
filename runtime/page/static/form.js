// The form of a model: a field for each input, a sequence where there is one, what came of it.

import { make, fill, say } from "./dom.js";
import { fieldOf, FieldError } from "./fields.js";
import { callOnce, callStream } from "./call.js";
import { copyable, curlOf, pythonOf } from "./snippets.js";
import { asWritten } from "./rates.js";
import { Events, failure, shown } from "./result.js";

/** Makes the form of one model at a time, sends it and shows the answer. */
export class Form {
  #form;
  #result;
  #hasToken;
  #model = null;
  #fields = [];
  #sequence = null;
  #running = null;

  constructor(form, result, hasToken) {
    this.#form = form;
    this.#result = result;
    this.#hasToken = hasToken;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    document.addEventListener("paste", (event) => this.#paste(event));
    for (const kind of ["dragover", "drop"]) {
      // a file that misses its field is not opened instead
      document.addEventListener(kind, (event) => event.preventDefault());
    }
  }

  /** Make the form of a model: its metadata, configuration and plan; the same form stays. */
  show(target, metadata, config, plan) {
    const key = JSON.stringify([metadata, config, cardsOf(plan, "input")]);
    if (this.#model?.key === key) {
      this.#model.target = target;
      return;
    }
    this.#running?.abort();
    const types = typesOf(plan, "output");
    const decoupled = config.model_transaction_policy?.decoupled === true;
    this.#model = { key, target, metadata, types, decoupled };
    this.#fields = inputsOf(metadata, config, plan).map((input) =>
      fieldOf(input, config.max_batch_size > 0),
    );
    this.#sequence = config.sequence_batching === undefined ? null : sequenceFields();
    this.run = make("button", { type: "submit", className: "run" }, "Run");
    this.stop = make("button", { type: "button", disabled: true }, "Cancel");
    this.stop.addEventListener("click", () => this.#running?.abort());
    const buttons = make("p", { className: "buttons" }, this.run, this.stop);
    const sequence = this.#sequence === null ? null : this.#sequence.element;
    fill(this.#form, ...this.#fields.map((field) => field.element), sequence, buttons);
    fill(this.#result);
  }

  /** Let it be sent, or not while nothing is served that could answer. */
  allow(allowed) {
    if (this.#model !== null && this.#running === null) this.run.disabled = !allowed;
  }

  #paste(event) {
    const files = event.clipboardData?.files ?? [];
    const field = this.#fields.find((one) => one.take !== undefined);
    if (files.length === 0 || field === undefined) return;
    event.preventDefault();
    field.take(files);
  }

  #read() {
    for (const field of this.#fields) field.blame(null);
    try {
      return this.#fields.map((field) => field.read()).filter((input) => input !== null);
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      error.field.blame(error.message);
      error.field.control.focus();
      return null;
    }
  }

  async #send() {
    const inputs = this.#read();
    if (inputs === null || this.#running !== null) return;
    const { target, metadata, types, decoupled } = this.#model;
    const parameters = this.#sequence === null ? {} : this.#sequence.read();
    const running = (this.#running = new AbortController());
    this.run.disabled = true;
    this.stop.disabled = false;
    this.#form.setAttribute("aria-busy", "true");
    try {
      const call = decoupled ? this.#stream : this.#once;
      await call.call(this, target, inputs, parameters, types, running.signal);
      if (this.#running === running) this.#sequence?.went();
    } catch (error) {
      if (this.#model.target === target) this.#result.append(...failure(error));
    } finally {
      if (this.#running === running) this.#running = null;
      this.run.disabled = false;
      this.stop.disabled = true;
      this.#form.removeAttribute("aria-busy");
    }
    if (this.#model.metadata !== metadata) return; // another was chosen meanwhile
    const asked = { ...target, token: this.#hasToken() };
    const names = metadata.outputs.map((output) => output.name);
    this.#result.append(
      make(
        "details",
        { className: "snippets" },
        make("summary", {}, "The same from a terminal and from Python"),
        copyable("curl", curlOf(asked, inputs, parameters, decoupled)),
        copyable("Python", pythonOf(asked, inputs, parameters, decoupled, names)),
      ),
    );
  }

  async #once(target, inputs, parameters, types, signal) {
    fill(this.#result, make("p", { className: "took" }, "running"));
    const images = inputs.flatMap((input) => input.blobs ?? []);
    try {
      const answer = await callOnce(target, inputs, parameters, signal);
      const took = `${answer.milliseconds.toFixed(1)} ms, version ${answer.version}`;
      fill(
        this.#result,
        make("p", { className: "took" }, took),
        ...shown(answer.outputs, types, images),
      );
    } catch (error) {
      fill(this.#result);
      throw error;
    }
  }

  async #stream(target, inputs, parameters, _, signal) {
    const events = new Events(),
      took = make("p", { className: "took" }, "running");
    fill(this.#result, took, events.element);
    const begin = performance.now();
    let first = null;
    try {
      for await (const event of callStream(target, inputs, parameters, signal)) {
        first ??= performance.now() - begin;
        events.add(event);
      }
    } finally {
      const all = (performance.now() - begin).toFixed(1);
      const soon = first === null ? "" : `, the first after ${first.toFixed(1)} ms`;
      say(took, `${events.count} responses in ${all} ms${soon}`);
    }
  }
}

/** Return the types of inputs or results, as written in the source, by their names. */
export function typesOf(plan, look) {
  return new Map(cardsOf(plan, look).map((card) => [card.title, card.lines[0]]));
}

/** Return what is known of each input: M's tensors, which may be left out, types and defaults. */
function inputsOf(metadata, config, plan) {
  const types = typesOf(plan, "input");
  const optional = new Set(config.input.filter((one) => one.optional).map((one) => one.name));
  const standards = new Map(
    cardsOf(plan, "input").map((card) => [
      card.title,
      asWritten(card.lines[1]?.slice(2) ?? "", card.lines[0]),
    ]),
  );
  return (metadata.inputs ?? []).map(({ name, datatype, shape }) => {
    const type = types.get(name) ?? `${datatype.toLowerCase()}[${shape.join(", ")}]`;
    return {
      name,
      datatype,
      shape,
      type,
      optional: optional.has(name),
      standard: standards.get(name) ?? "",
      scalar: !/[[<]/.test(type),
    };
  });
}

function cardsOf(plan, look) {
  return plan.frames.flatMap((frame) => frame.items).filter((item) => item.look === look);
}

/** The fields of a sequence: which it is, whether this request begins it, and whether it ends it. */
function sequenceFields() {
  const fresh = () => `page-${Math.floor(Math.random() * 1e9)}`;
  const id = make("input", { id: "sequence-id", value: fresh(), autocomplete: "off" });
  const start = make("input", { id: "sequence-start", type: "checkbox", checked: true });
  const end = make("input", { id: "sequence-end", type: "checkbox" });
  const element = make(
    "fieldset",
    {},
    make("legend", {}, "Sequence"),
    make("label", { for: "sequence-id" }, "id "),
    id,
    " ",
    make("label", {}, start, " this begins it"),
    " ",
    make("label", {}, end, " this ends it"),
  );
  return {
    element,
    read: () => ({
      sequence_id: id.value,
      sequence_start: start.checked,
      sequence_end: end.checked,
    }),
    went() {
      // the next request goes on with it, or begins another
      start.checked = end.checked;
      if (end.checked) id.value = fresh();
      end.checked = false;
    },
  };
}
