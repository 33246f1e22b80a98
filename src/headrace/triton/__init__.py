"""Repositories of Triton models, as a tritonserver reads them: read, completed, checked, served.

In order of control flow: `repository` reads folders; `config_text` makes a tree with places of a
configuration's text, in which `config_chars` knows those that cannot be seen, `config_fields` holds
it to the message, `config` has both and the message, `config_write` writes it again; `complete`
fills in what a server fills in, some of it from an `onnx_file`; `check` says what is wrong, showing
each of `rules` a `subject`, and `ensemble` follows tensors from step to step. `own_completion` asks
Python models, `translate` makes sources of models, `serving` is what a server loads of them, with
an `overlay` of what callers bring along, and `importing` writes them to disk.
"""
