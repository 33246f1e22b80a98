"""A plan as a repository of models for a stock tritonserver.

In order of control flow: `repository` puts all together. `stages` says which segments become models
of Triton's and as what, `model_file` what their files are, `ensemble` which pipelines ensembles of
them, `light` what of the plan the others carry; `config` writes what all of them are configured
with, `pages` the readme and the requirements. `serve` runs in the tritonserver, and `onnx_model.py`
is copied there.
"""
