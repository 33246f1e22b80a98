"""headrace.runtime: from a plan to answers. In order of control flow:

Loading. `load` makes stages of a plan's segments: each names the `backend` of `backends/` that
opens it, with its share of the cores by `division`, as an `instance` (a model, with `row_keys` and
`padding`, on an `onnx_session` (`onnx_backend`, `onnx_library`, `onnx_providers`, `onnx_values`,
`onnx_graphs`) or an engine of `tensorrt`, or another `session` that a `model_backend` opens, of a
`model_folder` or, as a `remote_peer` by `carriers` and `http_carrier`, of another server, whose
answers may be a `remote_stream`), a `python_stage` (functions, and objects of a `python_model`) or
an `op_stage` (stdlib ops; `kernels` of chains of them), in this process or with `isolation` in
others, or a model file of Triton's (`triton_python`; `triton_ragged` of rows in one line), which
may ask what is `nested` (`nested_models`, `own_models`) and keeps `custom_metrics`, ready after its
`warmup`; what is answered any number of times are `answers`; `transfer` copies to `devices`; what
is built at loading is kept in `shared_files`, what this machine lacks is a `load_error`. `prepared`
readies a pipeline: `accept`, `convert` and `present` its border, `bind` its blocks, `prune` them
for callers who want some results only.

Running. `request` is what comes and goes; `flow` walks a plan over groups of rows and yields work,
with `control` for branches and walks, `together` for blocks that run at once, `spread` for lanes,
`iterate` for loops and streams, `attempts` for `try`, `cache` for results that are kept; `rows` are
the values of a group, `literals` those known before, `shapes` binds and compares their dimensions;
`stage` is what work asks for; `blame` gives failures an address. `sequences` and `turns` keep
states between requests, `in_sequence` hands them to a walk, `seats` gives it a row of its own in
each batch, models in `chains` are one `chain_stage`, which batches go through together, `context`
tells stages that ask whose rows they have, and `stage_calls` counts what an ensemble asks of its
members.

Drivers. An `engine` (`engine_config`) has `calls`, which run a flow `inline` in the caller's
thread, `meetings` of those that have waited for one to end there, and `submissions`, which make it
a `task` for its `crew`; who is `inside` is counted.
`scheduler` decides what is next, with the `entrance`, `strands` of what has begun, `foresight`
(`admission`, `room`, `forecast`), `stage_queues` (`company`, `units` with `standstill`) and
`batcher` (`line`, `gather`, `queue_policy`, `agenda`); `jobs` does, `threads` take in what a
`shift` waits for (`until`, `limits`), as many as there are `places` and no more awake than a `bell`
says, woken once for all that is read in one of the `rounds` of a front end, and tells `outcomes`;
what must not be done under a lock a `pump` does; `pending` is the
future, `streams` hold what has been emitted; `simulate` puts a fake clock in place of threads,
`measure` finds out what models take, `check_batch` whether a batch changes results, with rows of
samples (`given_rows`) or `stand_ins`. `metrics` adds up what threads count in `cells`, and
`observe` writes down what happens to single requests. `record` is what an embedded call returns.

Front ends. `repository` loads plans, lets versions come and go, and has what they have in common
`shared`; `server` (`server_config`, `fronts` on `ports`, `tls`; `signals` end it) serves it as a
`service`, which asks its `siblings` in other processes, `access` decides who may what, and `extras`
are labels and memory that is shared (`regions`): `http` (`http_protocol`, `http_short`,
`http_answer`, `http_door`, `http_body` with `compression` and `uploads`, `http_encode`,
`http_stream` in `http_parts` and `http_generate`, `http_routes` with the `page`, `http_status`) and
`grpc` speak `protocols`, `awaiting` waits for futures, `exposition` shows metrics.
"""

if __name__ == "runtime":
    raise ImportError("import headrace.runtime: this folder is part of the package headrace")
