// A call of a model: answered once, or with a part for each response.

import { Refused, modelPath, send } from "./api.js";
import { partsOf } from "./parts.js";
import { decodeAnswer, decodeResponse, encodeRequest } from "./tensors.js";

/** Return the outputs of a model, its version and how long it took. */
export async function callOnce(target, inputs, parameters, signal) {
  const { body, headers } = encodeRequest(inputs, parameters);
  const begin = performance.now();
  const response = await send(modelPath(target.name, target.version, "/infer"), {
    body,
    headers,
    signal,
  });
  return { ...(await decodeResponse(response)), milliseconds: performance.now() - begin };
}

/** Yield the outputs of each response, as it comes; throws Refused for what goes wrong amid them. */
export async function* callStream(target, inputs, parameters, signal) {
  const { body, headers } = encodeRequest(inputs, parameters);
  const response = await send(modelPath(target.name, target.version, "/infer"), {
    body,
    headers: { ...headers, Accept: "multipart/mixed" },
    signal,
  });
  for await (const part of partsOf(response)) {
    if (part.headers.has("headrace-fault")) {
      const { error } = JSON.parse(new TextDecoder().decode(part.body));
      throw new Refused(500, error, null);
    }
    const length = part.headers.get("inference-header-content-length");
    yield decodeAnswer(part.body.buffer, length).outputs;
  }
}

/** Return inputs as plain JSON, each under its own name; one of bytes has none. */
export function plainBody(inputs, parameters) {
  const members = inputs.map((input) => `${JSON.stringify(input.name)}: ${input.plain}`);
  if (Object.keys(parameters).length > 0) {
    members.push(`"parameters": ${JSON.stringify(parameters)}`);
  }
  return `{${members.join(", ")}}`;
}
