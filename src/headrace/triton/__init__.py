"""Repositories of Triton models, as a tritonserver reads them: read, completed, checked.

In order of control flow: `repository` reads folders; `config_text` makes a tree with places of a
configuration's text, `config_fields` holds it to the message, `config` has both and the message;
`complete` fills in what a server fills in, some of it from an `onnx_file`; `check` says what is
wrong, showing each of `rules/` a `subject`; `ensemble` follows tensors from step to step.
"""
