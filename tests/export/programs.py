"""A program with a pipeline of each kind that an export tells apart."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from tests.runtime.plans import model

_FLOAT = int(TensorProto.FLOAT)

SOURCE = """\
use nn

model halve = onnx "halve.onnx" (x: f32[N]) -> (y: f32[N])
model peak = onnx "peak.onnx" (x: f32[N]) -> (y: f32[N], top: f32)

fn shout(word: string) -> (loud: string) = python "stages.py:shout" pure

pipeline chain(x: f32[N]) -> (y: f32[N], top: f32) {
    y, top = peak(halve(x))
    return y = y, top = top
}

pipeline rows(x: f32[4]) -> (y: f32[4], top: f32) batch 8 {
    y, top = peak(halve(x))
    return y = y, top = top
}

pipeline cascade(points: f32[N, 4], sure: f32 = 0.5) -> (top: f32[N], asked: bool[N]) {
    found = for point in points {
        y, top = peak(point)
        q = if top < sure { max(halve(y)) } else { top }
        yield top = q, asked = top < sure
    }
    return top = found.top, asked = found.asked
}

pipeline settle(x: f32[N], most: i64 = 20) -> (y: f32[N], turns: i64) {
    y, turns = loop (now: f32[N] = x, turns: i64 = 0) max most {
        half = halve(now)
        next now = half, turns = turns + 1
        stop when max(half) < 1
    }
    return y = y, turns = turns
}

pipeline fading(x: f32[4], most: i64) -> stream (y: f32[4]) {
    loop (now: f32[4] = x) max most {
        half = halve(now)
        emit y = half
        next now = half
    }
}

pipeline total(x: f32[4]) -> (sum: f32[4]) per sequence idle 30s {
    state sum: f32[4] = zeros
    now = sum + halve(x)
    next sum = now
    return sum = now
}

pipeline drip(x: f32[4], most: i64) -> stream (sum: f32[4]) per sequence idle 30s {
    state sum: f32[4] = zeros
    now = sum + halve(x)
    loop (n: i64 = 0) max most {
        emit sum = now
        next n = n + 1
    }
    next sum = now
}

pipeline words(words: list<string, 9>, parts: list<f32[_], 9>) -> (loud: list<string, 9>,
        halves: list<f32[_], 9>) {
    said = for word in words { yield shout(word) }
    cut = for part in parts { yield halve(part) }
    return loud = said, halves = cut
}

schedule rows {
    peak { batch { max = 8, wait = 1ms, prefer = [4] }, queue { size = 64 } }
}
"""


def write_program(folder: Path) -> Path:
    """Write the program and its files; return the source's path."""
    half = helper.make_node("Mul", ["x", "half"], ["y"])
    x, y = ("x", _FLOAT, ["B", "N"]), ("y", _FLOAT, ["B", "N"])
    halve = model([half], [x], [y], {"half": np.float32(0.5)})
    nodes = [
        helper.make_node("Identity", ["x"], ["y"]),
        helper.make_node("ReduceMax", ["x"], ["top"], axes=[1], keepdims=0),
    ]
    peak = model(nodes, [x], [y, ("top", _FLOAT, ["B"])], {})
    (folder / "halve.onnx").write_bytes(halve)
    (folder / "peak.onnx").write_bytes(peak)
    (folder / "stages.py").write_text("def shout(word: str) -> str:\n    return word.upper()\n")
    path = folder / "kinds.pipe"
    path.write_text(SOURCE)
    return path
