// Wires between the cards of a plan, laid anew whenever the cards have moved.

import { draw } from "./dom.js";

const LANE = 7; // pixels between wires that pass beside cards

export class Wires {
  #element;
  #cards = [];
  #wires = [];

  constructor(element) {
    this.#element = element;
  }

  /** Join cards, by their numbers. */
  join(cards, wires) {
    this.#cards = cards;
    const drawing = draw("svg", { class: "wires", "aria-hidden": "true" });
    this.#wires = wires.map((wire) => {
      const path = draw("path", { class: wire.texts.length > 0 ? "wire" : "wire decides" });
      const head = draw("path", { class: "head" });
      drawing.append(path, head);
      return { ...wire, path, head };
    });
    this.#element.append(drawing);
    this.lay();
  }

  /** Show the wires of one card before all others; null for none. */
  light(card) {
    const number = card === null ? -1 : this.#cards.indexOf(card);
    this.#element.classList.toggle("lit", number >= 0);
    for (const wire of this.#wires) {
      const lit = wire.source === number || wire.target === number;
      wire.path.classList.toggle("lit", lit);
      wire.head.classList.toggle("lit", lit);
    }
  }

  lay() {
    const own = this.#element.getBoundingClientRect();
    if (own.width === 0) return;
    const boxes = this.#cards.map((card) => boxOf(card, own));
    const ports = new Ports(this.#wires, boxes);
    let lane = 0;
    for (const wire of this.#wires) {
      const from = boxes[wire.source],
        to = boxes[wire.target];
      const start = { x: ports.out(wire), y: from.bottom },
        end = { x: ports.into(wire), y: to.top };
      const between = boxes.filter(
        (box) => box !== from && box !== to && box.bottom > start.y && box.top < end.y,
      );
      if (end.y > start.y && !between.some((box) => crosses(box, start, end))) {
        const bend = Math.min(40, (end.y - start.y) / 2);
        wire.path.setAttribute(
          "d",
          `M${start.x} ${start.y}C${start.x} ${start.y + bend} ` +
            `${end.x} ${end.y - bend} ${end.x} ${end.y - 4}`,
        );
        wire.head.setAttribute("d", `M${end.x - 3.5} ${end.y - 6}l7 0l-3.5 6z`);
      } else {
        const right = Math.max(from.right, to.right, ...between.map((box) => box.right));
        const x = Math.min(right + 8 + (lane++ % 4) * LANE, own.width - 3);
        const high = from.middle,
          low = to.middle;
        wire.path.setAttribute(
          "d",
          `M${from.right} ${high}C${x} ${high} ${x} ${high} ${x} ` +
            `${high + 14}L${x} ${low - 14}C${x} ${low} ${x} ${low} ${to.right + 4} ${low}`,
        );
        wire.head.setAttribute("d", `M${to.right + 6} ${low - 3.5}l0 7l-6 -3.5z`);
      }
    }
  }
}

/** Where along the edges of cards wires begin and end: side by side, in the order of the far ends. */
class Ports {
  #out = new Map();
  #into = new Map();

  constructor(wires, boxes) {
    this.#spread(wires, boxes, "source", "target", this.#out);
    this.#spread(wires, boxes, "target", "source", this.#into);
  }

  out(wire) {
    return this.#out.get(wire);
  }

  into(wire) {
    return this.#into.get(wire);
  }

  #spread(wires, boxes, near, far, found) {
    const groups = new Map();
    for (const wire of wires) groups.set(wire[near], [...(groups.get(wire[near]) ?? []), wire]);
    for (const [card, group] of groups) {
      const box = boxes[card],
        step = Math.min(14, (box.right - box.left - 16) / group.length);
      group.sort((one, other) => boxes[one[far]].centre - boxes[other[far]].centre);
      for (const [index, wire] of group.entries()) {
        found.set(wire, box.centre + (index - (group.length - 1) / 2) * step);
      }
    }
  }
}

function boxOf(card, own) {
  const { left, right, top, bottom } = card.getBoundingClientRect();
  const box = { left: left - own.left, right: right - own.left };
  box.top = top - own.top;
  box.bottom = bottom - own.top;
  box.centre = (box.left + box.right) / 2;
  box.middle = (box.top + box.bottom) / 2;
  return box;
}

/** Whether the straight line from one point to another comes near a box. */
function crosses(box, start, end) {
  for (let part = 0; part <= 1; part += 0.05) {
    const x = start.x + (end.x - start.x) * part,
      y = start.y + (end.y - start.y) * part;
    if (x > box.left - 3 && x < box.right + 3 && y > box.top && y < box.bottom) return true;
  }
  return false;
}
