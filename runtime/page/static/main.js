// What is served and what it does, asked for again and again while somebody looks.

import { ask, modelPath, useToken } from "./api.js";
import { byId, fill, make, say } from "./dom.js";
import { Drawing } from "./plan.js";
import { Form } from "./form.js";
import { Samples, perSecond } from "./rates.js";
import { narrow, sorted } from "./search.js";
import { Table } from "./stages.js";
import { showSummary, signature } from "./summary.js";

const EVERY = 1500; // milliseconds

const details = byId("details");
const drawing = new Drawing(byId("plan"), (text) => {
  details.hidden = text === null;
  say(details, text ?? "");
});
const table = new Table(byId("stages"));
let token = "";
const form = new Form(byId("form"), byId("result"), () => token !== "");

let chosen = readHash();
let shownModel = null; // what is drawn: name, version and hash of the plan, when it was loaded
let samples = new Samples();
let traffic = new Map(); // of each pipeline: how many answers there were, and when
let answeredAt = null;
let timer = null;
let asking = null;

/** Ask for all that is shown, once; what was asked before is of no more use. */
async function look() {
  clearTimeout(timer);
  asking?.abort();
  const round = (asking = new AbortController());
  try {
    await renew(round.signal);
    answeredAt = Date.now();
    tell("ready");
  } catch (error) {
    if (round.signal.aborted) return;
    tell(
      error.status === undefined
        ? "away"
        : error.status === 401 || error.status === 403
          ? "locked"
          : "error",
      error,
    );
  }
  if (asking === round && !document.hidden) timer = setTimeout(look, EVERY);
}

async function renew(signal) {
  const [server, index, statistics] = await Promise.all([
    ask("v2", undefined, signal),
    ask("v2/repository/index", {}, signal),
    ask("v2/models/stats", undefined, signal),
  ]);
  say(byId("version"), server.version);
  const served = servedOf(index);
  showPipelines(served, statistics.model_stats);
  if (chosen.name === "" && served.size > 0)
    chosen = { name: sorted(served.keys())[0], version: "" };
  const versions = served.get(chosen.name);
  if (versions === undefined) return showNothing(served, index);
  byId("nothing").hidden = true;
  if (chosen.version !== "" && !versions.includes(chosen.version)) chosen.version = "";
  const { name, version } = chosen;
  const figures = await ask(modelPath(name, version, "/stages"), undefined, signal);
  const isNew =
    shownModel === null ||
    ["name", "version", "hash"].some((one) => shownModel[one] !== figures[one]) ||
    figures.seconds < shownModel.seconds;
  if (isNew) await showModel(name, version, figures, signal);
  shownModel = figures;
  samples.add(performance.now(), figures);
  showVersions(versions);
  showSummary(figures, samples);
  drawing.update(samples);
  table.update(samples);
  form.allow(true);
}

/** Draw another plan, and make its form. */
async function showModel(name, version, figures, signal) {
  const [metadata, config, plan] = await Promise.all(
    ["", "/config", "/plan"].map((suffix) =>
      ask(modelPath(name, version, suffix), undefined, signal),
    ),
  );
  samples = new Samples();
  say(byId("name"), name);
  document.title = `${name} – headrace`;
  say(byId("signature"), signature(metadata, config, plan));
  byId("pipeline").hidden = false;
  drawing.show(plan);
  form.show({ name, version }, metadata, config, plan);
  fill(
    byId("links"),
    ...[
      ["metadata", ""],
      ["configuration", "/config"],
      ["plan", "/plan"],
      ["stages", "/stages"],
    ].flatMap(([text, suffix]) => [
      ", ",
      make("a", { href: modelPath(name, version, suffix) }, `its ${text}`),
    ]),
  );
}

/** Return the versions of each pipeline that answer, the oldest first. */
function servedOf(index) {
  const served = new Map();
  for (const { name, version, state } of index) {
    if (state === "READY") served.set(name, [...(served.get(name) ?? []), version]);
  }
  return served;
}

function showPipelines(served, statistics) {
  const now = performance.now(),
    before = traffic;
  traffic = new Map();
  for (const {
    name,
    inference_stats: { success, fail },
  } of statistics) {
    const known = traffic.get(name) ?? { good: 0, bad: 0, now };
    traffic.set(name, { good: known.good + success.count, bad: known.bad + fail.count, now });
  }
  const list = byId("pipelines");
  const names = sorted(served.keys());
  const links = new Map([...list.querySelectorAll("a")].map((link) => [link.dataset.name, link]));
  if (names.join("\n") !== [...links.keys()].join("\n")) {
    links.clear();
    for (const name of names) {
      const link = make(
        "a",
        { href: `#${encodeURIComponent(name)}` },
        make("b", {}, name),
        " ",
        make("span", { className: "hint" }),
      );
      link.dataset.name = name;
      links.set(name, link);
    }
    fill(list, ...[...links.values()].map((link) => make("li", {}, link)));
    narrow();
  }
  for (const [name, link] of links) {
    const is = traffic.get(name),
      was = before.get(name);
    const rate =
      is && was && is.good >= was.good && is.now > was.now
        ? ((is.good - was.good) / (is.now - was.now)) * 1000
        : null;
    say(link.querySelector(".hint"), rate === null ? "" : perSecond(rate));
    if (name !== chosen.name) link.removeAttribute("aria-current");
    else if (!link.hasAttribute("aria-current")) {
      link.setAttribute("aria-current", "page");
      list.scrollTop = link.offsetTop - list.clientHeight / 2; // the list alone, not the page
    }
  }
}

function showVersions(versions) {
  byId("versions-label").hidden = versions.length < 2;
  const select = byId("versions");
  const texts = ["", ...versions];
  if (texts.join() !== [...select.options].map((option) => option.value).join()) {
    fill(
      select,
      ...texts.map((value) => make("option", { value }, value === "" ? "as served" : value)),
    );
  }
  select.value = chosen.version;
}

/** Say that what was chosen is not served, and leave its last figures, as past ones. */
function showNothing(served, index) {
  const failed = index.find((one) => one.name === chosen.name && one.reason !== "");
  say(
    byId("nothing"),
    chosen.name === ""
      ? "Nothing is served yet. It will appear here."
      : `“${chosen.name}” is not served now${failed ? `: ${failed.reason}` : ""}.`,
  );
  byId("nothing").hidden = false;
  document.body.classList.toggle("stale", true);
  form.allow(false);
  samples = new Samples();
}

/** Say how things stand, where that has changed. */
function tell(state, error) {
  const since =
    answeredAt === null ? "" : `; what is shown is of ${new Date(answeredAt).toLocaleTimeString()}`;
  const texts = {
    ready: "connected",
    away: `the server does not answer${since}`,
    locked: `a token is needed: ${error?.message ?? ""}`,
    error: `the server answers with an error: ${error?.message ?? ""}${since}`,
  };
  say(byId("state"), texts[state]);
  byId("state").dataset.state = state;
  const gone = state === "ready" && !byId("nothing").hidden;
  document.body.classList.toggle("stale", state !== "ready" || gone);
  if (state === "locked" && token === "") byId("access").open = true;
}

function readHash() {
  const [name = "", version = ""] = location.hash.slice(1).split("/").map(decode);
  return { name, version };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

addEventListener("hashchange", () => {
  const next = readHash();
  if (next.name === "" || location.hash === "#main") return;
  if (next.name !== chosen.name || next.version !== chosen.version) shownModel = null;
  chosen = next;
  look();
});

byId("versions").addEventListener("change", (event) => {
  location.hash = [chosen.name, event.target.value]
    .filter((one) => one !== "")
    .map(encodeURIComponent)
    .join("/");
});

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value;
  useToken(token);
  byId("access").open = false;
  look();
});

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (document.hidden) asking?.abort();
  else look();
});

look();
