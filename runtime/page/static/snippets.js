// The same request for other clients: a line for curl, and lines of Python.

import { modelPath } from "./api.js";
import { plainBody } from "./call.js";
import { lengthPrefix } from "./tensors.js";
import { make } from "./dom.js";

const LONGEST = 400; // characters of a value that are shown

/** Return a request as curl sends it. */
export function curlOf(target, inputs, parameters, decoupled) {
  const url = (suffix) => new URL(modelPath(target.name, target.version, suffix), document.baseURI);
  const shown = inputs.map(short);
  const token = target.token ? ` -H "Authorization: Bearer $TOKEN"` : "";
  if (inputs.every((input) => input.blobs === undefined)) {
    const suffix = decoupled ? "/generate_stream" : "/generate";
    const body = quoted(plainBody(shown, parameters));
    return `curl${decoupled ? " -N" : ""}${token} ${url(suffix)} \\\n  -d ${body}`;
  }
  const parts = [];
  const tensors = shown.map(({ name, datatype, shape, data, blobs }) => {
    const head =
      `"name":${JSON.stringify(name)},"datatype":"${datatype}",` +
      `"shape":${JSON.stringify(shape)}`;
    if (blobs === undefined) return `{${head},"data":${data}}`;
    for (const blob of blobs) {
      const bytes = lengthPrefix(blob.size).map((byte) => `\\${byte.toString(8).padStart(3, "0")}`);
      parts.push(`printf '${bytes.join("")}'`, `cat ${quoted(fileName(blob))}`);
    }
    const size = blobs.reduce((sum, blob) => sum + 4 + blob.size, 0);
    return `{${head},"parameters":{"binary_data_size":${size}}}`;
  });
  const asked =
    Object.keys(parameters).length > 0 ? `,"parameters":${JSON.stringify(parameters)}` : "";
  const json = `{"inputs":[${tensors.join(",")}]${asked}}`;
  const length = new TextEncoder().encode(json).length;
  const streamed = decoupled ? " -N -H 'Accept: multipart/mixed'" : "";
  return (
    `{ printf %s ${quoted(json)}; ${parts.join("; ")}; } |\n` +
    `  curl${streamed}${token} -H 'Inference-Header-Content-Length: ${length}' --data-binary @- ${url("/infer")}`
  );
}

/** Return a request as `headrace.Client` sends it. */
export function pythonOf(target, inputs, parameters, decoupled, outputs) {
  const given = inputs.map((input) => {
    if (input.blobs === undefined) return `${input.name}=${pythonLiteral(short(input).plain)}`;
    const files = input.blobs.map((blob) => `Path(${JSON.stringify(fileName(blob))}).read_bytes()`);
    return `${input.name}=${files.length === 1 ? files[0] : `[${files.join(", ")}]`}`;
  });
  const files = inputs.some((input) => input.blobs !== undefined);
  const called = `client[${JSON.stringify(target.name)}]`;
  const address = JSON.stringify(new URL(".", document.baseURI).href.replace(/\/$/, ""));
  const lines = files ? ["from pathlib import Path", ""] : [];
  lines.push("from headrace import Client", "");
  lines.push(`with Client(${address}${target.token ? ", token=TOKEN" : ""}) as client:`);
  const call = `(${given.join(", ")})`;
  if (decoupled) {
    lines.push(`    for event in ${called}.stream${call}:`, "        print(event)");
  } else if (parameters.sequence_id !== undefined) {
    const id = JSON.stringify(parameters.sequence_id);
    lines.push(`    sequence = ${called}.sequence(${id})`, `    result = sequence${call}`);
  } else {
    lines.push(`    result = ${called}${call}`);
  }
  if (!decoupled) lines.push(...outputs.map((name) => `    print(result.${name})`));
  return lines.join("\n");
}

function short(input) {
  if (input.blobs !== undefined || input.data.length <= LONGEST) return input;
  return { ...input, data: "[…]", plain: "[…]" };
}

const pythonLiteral = (json) =>
  json === "true"
    ? "True"
    : json === "false"
      ? "False"
      : /^[[\d-]/.test(json)
        ? json.replace(/\btrue\b/g, "True").replace(/\bfalse\b/g, "False")
        : json;

const fileName = (blob) => blob.name || "input";
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** Return what shows a text to be copied. */
export function copyable(title, text) {
  const code = make("pre", { tabIndex: 0, "aria-label": title }, make("code", {}, text));
  const button = make("button", { type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // a page that came over plain HTTP from elsewhere may not: then it is marked
      getSelection().selectAllChildren(code);
      button.textContent = "Marked";
    }
  });
  return make("div", { className: "snippet" }, make("p", {}, title, " ", button), code);
}
