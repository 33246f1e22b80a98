"""headrace.runtime.triton_python: models of Triton's Python backend, as their files are.

In order of control flow: `program` is the interpreter of a model (in its own `environment`),
`config` what the model is told of itself and `complete` what it says to that; a `process` loads it
and carries what is asked, in which `asked` keeps requests apart and `open_requests` knows which are
not over, and what it says meanwhile is `heard`; `stages` makes requests of rows and rows of
responses, any number of them where a model is `decoupled` (each has a thread with it while it
executes), `iterative` tells requests that are scheduled anew of it (those behind a queue meet in
`iterating`, those of a decoupled model in a `rotation`), and `bound` gives sequences a worker;
`calls` does what a model asks of the server. `worker` holds what runs at the other end. Where a
schedule wants it, a model runs `inside` of the engine's own process: there are `instances` of it,
each with its `own_modules` and the engine as a `direct` one.

How it differs from isolated Python stages: both sides may speak at any time, because a model asks
other models while it runs, and answers when it has returned. So there are messages (`worker`'s
`link.py`) in place of calls, and the thread that keeps a process hears all that it says. It never
waits for the worker: it is sent nothing large that no thread there waits for.
"""
