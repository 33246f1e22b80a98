"""The ops that pipelines are made of: checked, run and lowered to ONNX by the same definition.

In order of control flow: `op` says what an op is; `catalog` finds all of them; `reference` writes
their documentation. An op is a file in the folder of its family (`core`, `math`, `nn`, `image`,
`text`, `audio`). What ops share: `dtypes` and `values` for numbers at run time, `npy` for those in
files, `constants` and `rules` for shape rules, `lowering` for ONNX; `elementwise`, `choosing`,
`real`, `images`, `strings` for kinds of ops; `opencv`, `sound` and `tokenizer` for the libraries
behind them.
"""

if __name__ == "stdlib":
    raise ImportError("import headrace.stdlib: this folder is part of the package headrace")
