// What a pipeline is, in a line, and how it does, in figures.

import { byId, fill, make, say } from "./dom.js";
import { typesOf } from "./form.js";
import { perSecond, seconds, total } from "./rates.js";

/** Return what a pipeline takes and gives, as the source says it. */
export function signature(metadata, config, plan) {
  const inputs = typesOf(plan, "input"),
    told = JSON.parse(config.parameters?.["headrace.signature"]?.string_value ?? "{}"),
    outputs = new Map(told.results); // a plan draws no results of a stream
  const said = (tensors, types) =>
    tensors
      .map(
        ({ name, datatype, shape }) => `${name}: ${types.get(name) ?? `${datatype}[${shape}]`}`,
      )
      .join(", ");
  const stream = config.model_transaction_policy?.decoupled ? "stream " : "";
  const rows = config.max_batch_size > 0 ? ` batch ${config.max_batch_size}` : "";
  return `(${said(metadata.inputs ?? [], inputs)}) → ${stream}(${said(metadata.outputs ?? [], outputs)})${rows}`;
}

/** Show the figures of a pipeline, and by the samples of late its rates. */
export function showSummary({ version, hash, seconds: age, requests }, samples) {
  const read = (find) => samples.rate((figures) => find(figures.requests));
  const mean = samples.ratio(
    (f) => f.requests.duration_ns,
    (f) => f.requests.succeeded,
  );
  const failed = total(requests.failed);
  const reasons = Object.entries(requests.failed)
    .map(([code, count]) => `${code} ${count}`)
    .join(", ");
  const fallen = requests.fallbacks.reduce((sum, one) => sum + one.rows, 0);
  const parts = [
    ["Answered", perSecond(read((one) => one.succeeded)), requests.succeeded.toLocaleString("en")],
    ["Time, mean", seconds(mean), ""],
    ["Waiting", String(requests.waiting), ""],
    ["Under way", String(requests.in_flight), ""],
    ["Failed", String(failed), reasons],
    ...(fallen > 0 ? [["Fell back", String(fallen), "rows, to the else of a try"]] : []),
    ["Version", version, hash.slice(0, 8)],
  ];
  const list = byId("summary");
  if (list.children.length !== parts.length) {
    fill(
      list,
      ...parts.map(() =>
        make("div", {}, make("dt"), make("dd"), make("dd", { className: "hint" })),
      ),
    );
  }
  for (const [index, texts] of parts.entries()) {
    for (const [place, text] of texts.entries()) say(list.children[index].children[place], text);
  }
  const since = new Date(Date.now() - age * 1000);
  say(
    byId("since"),
    `Counted since ${since.toLocaleString()}; rates are of the last 10 s, times of ` +
      "the latest runs of each thread, up to 64.",
  );
}
