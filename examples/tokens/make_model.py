"""Makes `lm.onnx`: a language model of letters that looks at the last two of them.

    python examples/tokens/make_model.py

It has counted, in the text below, which letter follows each pair. Letter 0 ends a sentence.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper, save

LETTERS = "\n abcdefghijklmnopqrstuvwxyz"
TEXT = """the river rises when the rain falls on the hills
the miller opens the gate and the water turns the wheel
when the wheel turns the stones grind the corn
the rain stops and the river falls and the gate closes
the wheel stands still until the river rises
"""


def table(text: str = TEXT) -> NDArray[np.float32]:
    """Return log(1 + count) of each letter after each pair: f32[letters * letters, letters]."""
    ids = [LETTERS.index(letter) for letter in "\n" + text]
    size = len(LETTERS)
    counts = np.zeros((size * size, size))
    for before, last, after in zip(ids, ids[1:], ids[2:], strict=False):
        counts[before * size + last, after] += 1
        if before != 0:
            counts[last, after] += 1  # as if the sentence began here, for prompts of one letter
    return np.log1p(counts).astype(np.float32)


def model() -> ModelProto:
    """Return the model: ids i64[B, L] to logits f32[B, L, letters], for every place in the text."""
    weights = {
        "table": table(),
        "size": np.array(len(LETTERS), np.int64),
        "none": np.array(0, np.int64),
        "start": np.array([0], np.int64),
        "one": np.array([1], np.int64),
        "but_last": np.array([-1], np.int64),
        "axis": np.array([1], np.int64),
    }
    nodes = [
        helper.make_node("Slice", ["ids", "start", "one", "axis"], ["first"]),
        helper.make_node("Mul", ["first", "none"], ["nothing"]),
        helper.make_node("Slice", ["ids", "start", "but_last", "axis"], ["rest"]),
        helper.make_node("Concat", ["nothing", "rest"], ["before"], axis=1),
        helper.make_node("Mul", ["before", "size"], ["row"]),
        helper.make_node("Add", ["row", "ids"], ["pair"]),
        helper.make_node("Gather", ["table", "pair"], ["logits"], axis=0),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["B", "L"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["B", "L", len(LETTERS)])
    initializers = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "letters", [ids], [logits], initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 10
    return made


if __name__ == "__main__":
    save(model(), str(Path(__file__).with_name("lm.onnx")))
