// What the server is asked, and how it refuses.

let token = "";

/** Show this token with all that is asked from now on; it is kept in this variable alone. */
export function useToken(text) {
  token = text.trim();
}

/** The server has answered that it will not. */
export class Refused extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** Return the answer to a request; throws Refused, or TypeError where there is no server. */
export async function send(path, { body, headers = {}, signal } = {}) {
  const shown = token === "" ? {} : { Authorization: `Bearer ${token}` };
  const response = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers: { ...shown, ...headers },
    body,
    signal,
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
  });
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  const text = await response.text();
  let message = text;
  try {
    message = JSON.parse(text).error ?? text;
  } catch {
    // no JSON: what a proxy says
  }
  const said = String(message).slice(0, 5000) || response.statusText;
  return new Refused(response.status, said, response.headers.get("retry-after"));
}

/** Return the JSON of an answer; with a body it is posted. */
export async function ask(path, body, signal) {
  const settings = body === undefined ? {} : { body: JSON.stringify(body), headers: JSON_TYPE };
  return (await send(path, { ...settings, signal })).json();
}

const JSON_TYPE = { "Content-Type": "application/json" };

/** Return the path of what is asked of a model, of a version if one is given. */
export function modelPath(name, version, suffix = "") {
  const which = version ? `/versions/${encodeURIComponent(version)}` : "";
  return `v2/models/${encodeURIComponent(name)}${which}${suffix}`;
}

const CURES = new Map([
  [400, "What was sent does not fit: see what the message names, and the types beside the fields."],
  [401, "Enter a token that may do this under “Token” above."],
  [403, "Nobody, or not this token, may do this here: the server's options decide."],
  [404, "It is not served any more: choose another above."],
  [413, "It is larger than this server takes."],
  [499, "It was cancelled."],
  [500, "The stage that the message names has failed on this input; the server's log says more."],
  [501, "This server cannot do this with this pipeline."],
  [503, "The server is busy, stops, or had not enough time: try again in a moment."],
]);

/** Return what can be done about a refusal. */
export function cure(refused) {
  const known = CURES.get(refused.status) ?? "";
  return refused.retryAfter ? `${known} It asks to wait ${refused.retryAfter} s.` : known;
}
