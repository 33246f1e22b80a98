// The same figures as a table: for those who do not see the drawing, and for more of them.

import { make, fill, say } from "./dom.js";
import { number, perSecond, seconds, total } from "./rates.js";

const COLUMNS = [
  ["stage", "Stage"],
  ["rate", "Runs"],
  ["rows", "Rows"],
  ["batch", "Rows a run"],
  ["waiting", "Rows waiting"],
  ["p50", "Time, median"],
  ["p95", "Time, 95 %"],
  ["failed", "Failed requests"],
  ["executions", "Runs so far"],
];

export class Table {
  #body = make("tbody");
  #rows = new Map();

  constructor(element) {
    const heads = COLUMNS.map(([, title]) => make("th", { scope: "col" }, title));
    fill(element, make("thead", {}, make("tr", {}, ...heads)), this.#body);
  }

  /** Show the stages of samples of M/stages. */
  update(samples) {
    const stages = samples.last?.stages ?? [];
    const names = stages.map((stage) => stage.name);
    if (names.join("\n") !== [...this.#rows.keys()].join("\n")) this.#begin(names);
    for (const stage of stages) {
      const find = (figures) => figures.stages.find((one) => one.name === stage.name);
      const cells = this.#rows.get(stage.name);
      const shown = {
        rate: perSecond(samples.rate((figures) => find(figures)?.executions)),
        rows: perSecond(samples.rate((figures) => find(figures)?.rows)),
        batch: number(
          samples.ratio(
            (f) => find(f)?.rows,
            (f) => find(f)?.executions,
          ),
        ),
        waiting: String(stage.waiting),
        p50: seconds(stage.latest.p50_ns),
        p95: seconds(stage.latest.p95_ns),
        failed: reasons(stage.failed),
        executions: stage.executions.toLocaleString("en"),
      };
      for (const [name, text] of Object.entries(shown)) say(cells[name], text);
    }
  }

  #begin(names) {
    this.#rows = new Map(
      names.map((name) => {
        const cells = Object.fromEntries(
          COLUMNS.map(([column]) => [
            column,
            column === "stage" ? make("th", { scope: "row" }, name) : make("td"),
          ]),
        );
        return [name, cells];
      }),
    );
    const rows = [...this.#rows.values()].map((cells) => make("tr", {}, ...Object.values(cells)));
    fill(this.#body, ...rows);
  }
}

function reasons(failed) {
  const several = Object.entries(failed);
  if (several.length === 0) return "0";
  return `${total(failed)} (${several.map(([code, count]) => `${code} ${count}`).join(", ")})`;
}
