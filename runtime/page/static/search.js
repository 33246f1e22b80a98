// Finding a pipeline among many: a field above their names, which leaves those that have a text.

import { byId } from "./dom.js";

const FEW = 12; // names that are found at a glance

const order = new Intl.Collator("en", { numeric: true }).compare;

/** Return names as people look them up: “box 2” before “box 10”. */
export function sorted(names) {
  return [...names].sort(order);
}

/** Show of a list those whose name has what is typed, and the field where there are many. */
export function narrow() {
  const items = [...byId("pipelines").children];
  const text = byId("search").value.trim().toLowerCase();
  byId("search-label").hidden = items.length <= FEW && text === "";
  for (const item of items) {
    item.hidden = !item.querySelector("a").dataset.name.toLowerCase().includes(text);
  }
}

byId("search").addEventListener("input", narrow);
