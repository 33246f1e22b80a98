// The plan, drawn: cards in nested frames, in the order in which they run, and wires between them.

import { make, fill, say } from "./dom.js";
import { Wires } from "./wires.js";
import { asWritten, number, perSecond, seconds, total } from "./rates.js";

/** Draws one plan at a time in an element. */
export class Drawing {
  #element;
  #wires;
  #figures = new Map(); // of a stage: the elements that show them, one for each of its cards

  /** `point` is told the details of what is pointed at, and null when nothing is. */
  constructor(element, point) {
    this.#element = element;
    this.#wires = new Wires(element);
    new ResizeObserver(() => this.#wires.lay()).observe(element);
    element.addEventListener("pointerover", (event) => {
      const card = event.target.closest(".card");
      this.#wires.light(card);
      point(event.target.closest(".card, .frame")?.dataset.details ?? null);
    });
    element.addEventListener("pointerleave", () => {
      this.#wires.light(null);
      point(null);
    });
  }

  /** Draw the plan of M/plan. */
  show(plan) {
    this.#figures.clear();
    const cards = [];
    fill(this.#element, ...plan.frames.map((frame) => this.#frame(frame, plan.wires, cards)));
    const steps = cards.filter((card) => card !== undefined).length;
    this.#element.setAttribute(
      "aria-label",
      `The plan of ${plan.name} in ${steps} steps. The table of stages below has their figures.`,
    );
    this.#wires.join(cards, plan.wires);
  }

  /** Show what stages do, from samples of M/stages; without, that nothing is known. */
  update(samples) {
    for (const [name, shown] of this.#figures) {
      const find = (figures) => figures.stages.find((stage) => stage.name === name);
      const stage = samples.last && find(samples.last);
      for (const { element, rows } of shown) {
        element.classList.toggle("idle", !stage || stage.executions === 0);
        if (!stage) continue;
        const rate = samples.rate((figures) => find(figures)?.executions);
        const batch = samples.ratio(
          (f) => find(f)?.rows,
          (f) => find(f)?.executions,
        );
        const failed = total(stage.failed);
        say(rows.rate, perSecond(rate));
        say(rows.time, seconds(stage.latest.p50_ns));
        say(rows.batch, batch === null || batch === 1 ? "" : `× ${number(batch)}`);
        say(rows.waiting, stage.waiting === 0 ? "" : `${stage.waiting} wait`);
        say(rows.failed, failed === 0 ? "" : `${failed} failed`);
        element.classList.toggle("busy", rate !== null && rate > 0);
      }
    }
  }

  #frame(frame, wires, cards) {
    const title = make("p", { className: "title" }, frame.title);
    const lines = frame.lines.map((line) => make("p", { className: "line" }, line));
    const element = make("div", { className: "frame" }, title, ...lines);
    if (frame.details !== "") element.dataset.details = frame.details;
    for (const layer of layers(frame.items, wires)) {
      const drawn = layer.map((item) =>
        item.card === undefined ? this.#frame(item, wires, cards) : this.#card(item, cards),
      );
      element.append(make("div", { className: "layer" }, ...drawn));
    }
    return element;
  }

  #card(card, cards) {
    const device = card.device === "" ? null : make("span", { className: "device" }, card.device);
    const title = make("p", { className: "title" }, card.title, device);
    const lines = card.lines
      .filter((line) => line !== "")
      .map((line) =>
        make(
          "p",
          { className: "line" },
          line.startsWith("= ") ? `= ${asWritten(line.slice(2), card.lines[0])}` : line,
        ),
      );
    const kinds = ["card", card.look, ...(card.batches ? ["batches"] : [])];
    const element = make("div", { className: kinds.join(" ") }, title, ...lines);
    element.dataset.details = [card.title, ...card.lines, card.details].join("\n");
    cards[card.card] = element;
    if (card.stage !== null) {
      const rows = {};
      for (const name of ["rate", "batch", "time", "waiting", "failed"]) {
        rows[name] = make("span", { className: name });
      }
      const figures = make("p", { className: "figures idle" }, ...Object.values(rows));
      element.append(figures);
      this.#figures.set(card.stage, [
        ...(this.#figures.get(card.stage) ?? []),
        { element: figures, rows },
      ]);
    }
    return element;
  }
}

/** Part the items of a frame into layers: each stands below all that it has something from. */
function layers(items, wires) {
  const owner = new Map(items.flatMap((item, index) => cardsOf(item).map((card) => [card, index])));
  const depth = items.map(() => 0);
  for (const [index, item] of items.entries()) {
    const mine = new Set(cardsOf(item));
    for (const wire of wires) {
      const from = owner.get(wire.source);
      if (mine.has(wire.target) && from !== undefined && from < index) {
        depth[index] = Math.max(depth[index], depth[from] + 1);
      }
    }
  }
  const last = Math.max(...depth, 0);
  for (const [index, item] of items.entries()) {
    // results stand together, at the end
    if (item.look === "output" && index > 0) depth[index] = last;
  }
  const found = [];
  for (const [index, item] of items.entries()) (found[depth[index]] ??= []).push(item);
  return found.filter((layer) => layer !== undefined);
}

function cardsOf(item) {
  return item.card === undefined ? item.items.flatMap(cardsOf) : [item.card];
}
