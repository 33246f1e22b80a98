"""The page at `/`: what is served, live, and a form to try it.

`files` serves what lies in `static`: HTML, CSS and modules of JavaScript as they are in the
repository. Nothing is built, and nothing comes from elsewhere. What it shows it asks for like any
caller, at the endpoints that `docs/page.md` lists. In order of control flow: `main.js` asks again
and again (`api.js`), makes rates of counts (`rates.js`), says what is shown (`summary.js`), draws
the plan (`plan.js`, with `wires.js`) and its table (`stages.js`); the form (`form.js`, of
`fields.js`) is sent as `tensors.js` and `call.js` say, `result.js` shows the answer
(`over_image.js` on an image), and `snippets.js` the same request for other clients. All of them
make elements with `dom.js`, which knows no way to read text as HTML.
"""
