// A call of a model: answered once, or with an event for each response.

import { JSON_TYPE, Refused, Unsent, modelPath, send } from "./api.js";
import { decodeResponse, encodeRequest } from "./tensors.js";

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

/** Yield what a stream emits, each as it comes; throws Refused for what goes wrong amid it. */
export async function* callStream(target, inputs, parameters, signal) {
  const response = await send(modelPath(target.name, target.version, "/generate_stream"), {
    body: plainBody(inputs, parameters),
    headers: JSON_TYPE,
    signal,
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        const told = JSON.parse(event.replace(/^data: /, ""));
        if (told.error !== undefined) throw new Refused(500, told.error, null);
        yield told;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Return inputs as plain JSON, each under its own name. */
export function plainBody(inputs, parameters) {
  const members = inputs.map((input) => {
    if (input.plain === undefined) {
      throw new Unsent(`this page sends no bytes to a stream, as “${input.name}” is: ask as below`);
    }
    return `${JSON.stringify(input.name)}: ${input.plain}`;
  });
  if (Object.keys(parameters).length > 0) {
    members.push(`"parameters": ${JSON.stringify(parameters)}`);
  }
  return `{${members.join(", ")}}`;
}
