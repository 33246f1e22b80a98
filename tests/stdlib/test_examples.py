"""The examples of the docs compile in a pipeline that has what they name."""

import re

import pytest

from headrace.compiler import check
from headrace.dsl.source import Source
from headrace.stdlib.catalog import load_catalog
from headrace.stdlib.op import Op

INPUTS = {
    "photo": "bytes",
    "img": "u8[H, W, 3]",
    "page": "u8[H, W, 3]",
    "crop": "u8[48, V, 3]",
    "box": "f32[4, 2]",
    "boxes": "f32[N, 4, 2]",
    "order": "i64[N]",
    "scores": "f32[N]",
    "ids": "i64[N]",
    "token": "i64",
    "label": "i64",
    "n": "i64",
    "a": "f32[3]",
    "b": "f32[3]",
    "p": "f32[T, K]",
    "logits": "f32[T, K]",
    "pooled": "f32[384]",
    "tokens": "f32[L, 384]",
    "mask": "i64[L]",
    "centroids": "f32[15, 384]",
    "rects": "f32[N, 4]",
    "weights": "f32[4, 7]",
    "charset": "string[K]",
    "line": "string",
    "words": "string[N]",
    "recording": "bytes",
    "document": "bytes",
    "vocabulary": "bytes",
    "sound": "f32[S]",
    "pcm": "i16[S]",
    "corners": "f32[N, 2]",
    "wide": "bool",
    "tall": "bool",
    "keep": "bool",
}
X = {"squeeze": "f32[1, 3, 4]", "to_hwc": "f32[3, H, W]"}


def kind_of_x(op: Op) -> str:
    if op.family == "text":
        return "string"
    return X.get(op.name.partition(".")[2], "f32[3, 4]")


@pytest.mark.parametrize("op", list(load_catalog()), ids=lambda op: op.name)
def test_the_example_of_an_op_compiles(op: Op) -> None:
    targets, _, value = op.example.partition(" = ")
    wanted = {name for name in re.findall(r"\b\w+\b", value) if name in INPUTS}
    inputs = [f"{name}: {INPUTS[name]}" for name in sorted(wanted)]
    if re.search(r"\bx\b(?! = )", value):
        inputs.append(f"x: {kind_of_x(op)}")
    # A name that the example makes must not be one of the inputs.
    made = [f"made_{i}" for i, _ in enumerate(targets.split(", "))]
    family = "" if op.family == "core" else f"use {op.family}\n"
    text = (
        f"{family}pipeline example({', '.join(inputs)}) -> (done: bool) {{\n"
        f"    {', '.join(made)} = {value}\n"
        "    return done = true\n}\n"
    )
    mistakes = [f"{one.code}: {one.message}" for one in check(Source("example.pipe", text))]
    assert not [one for one in mistakes if "never used" not in one], text
