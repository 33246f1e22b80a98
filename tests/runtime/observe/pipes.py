"""A pipeline with a bit of everything, to look at while it runs."""

from pathlib import Path

import headrace
from headrace.app import CompiledPlan
from tests.runtime.plans import add_model

STAGES = """
import sys

def double(x):
    return x * 2

def wait(x):
    gate = sys.modules.get("observed_gate")  # of tests that hold it up
    if gate is not None:
        gate.arrived.release()
        assert gate.open.wait(20)
    return x

def reject(x):
    if x > 2:
        raise ValueError("too much")
    return x
"""

TEXT = """\
model plus = onnx "plus.onnx" (x: f32[N]) -> (y: f32[N])
fn double(x: f32) -> (y: f32) = python "stages.py:double" batched pure
fn wait(x: f32) -> (y: f32) = python "stages.py:wait"
fn reject(x: f32) -> (y: f32) = python "stages.py:reject" pure

pipeline each(xs: f32[N]) -> (ys: f32[N], first: f32[N]) {
    scaled = xs * 10
    first = plus(scaled)
    ys = for x in xs {
        twice = double(x)
        safe = try { reject(twice) } else { 0.0 }
        yield y = safe
    }
    return ys = ys, first = first
}

pipeline slow(x: f32) -> (y: f32) {
    held = wait(x)
    return y = double(held)
}

pipeline fails(x: f32) -> (y: f32) { return y = reject(double(x)) }

pipeline counted(n: i64) -> stream (turn: i64) {
    loop (i: i64 = 0) max n {
        emit turn = i
        next i = i + 1
    }
}

pipeline odd(trace: f32) -> (y: f32) { return y = double(trace) }

pipeline summed(x: f32) -> (y: f32) per sequence idle 10s {
    state total: f32 = 0.0
    sum = total + x
    next total = sum
    return y = double(sum)
}

schedule each on "server" { double { batch { max = 8, wait = 0ms }, cache = 1MiB } }
schedule slow on "server" {
    double { batch { max = 8, wait = 10ms } }
    priority { levels = 3, default = 2 }
}
"""


def plan_in(folder: Path, text: str = TEXT, *, schedule: str | None = None) -> CompiledPlan:
    """Compile it, with its files in a folder."""
    (folder / "plus.onnx").write_bytes(add_model(1.0, "N"))
    (folder / "stages.py").write_text(STAGES)
    (folder / "a.pipe").write_text(text)
    return headrace.compile(folder / "a.pipe", schedule)
