"""What may be wrong with a model of a repository, one subject a file; `check.py` finds each file.

In the order of a model's life: `layout` of folders and files, `backends`, `tensors`, `model_file`
behind them, `batching` and queues, `sequences`, `instances`, `settings` of the rest, `warmups`; of
ensembles `ensemble` as a whole, `steps`, `flow` between them, `clashes` of types, `decoupled`;
`useless` is what has no effect, `unserved` what headrace does not do.
"""
