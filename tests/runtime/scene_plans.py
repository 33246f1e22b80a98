"""What happens in the scenes: a pipeline `p` each, as small as shows the behaviour."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.compiler.plan import Plan
from tests.runtime.behaviour_pipes import compiled

SEEN = "seen_in_scenes"

FUNCTIONS = """
import numpy as np
import seen_in_scenes as seen

def double(xs):
    if (xs == 13).any():
        raise ValueError("thirteen")
    return xs * 2

def miscount(xs):
    return np.zeros(len(xs) + 1, np.float32)

def echo(xs):
    return xs

def same(a, b):
    if a != b:
        raise ValueError(f"{a} and {b} have met")
    return a

def first(x):
    seen.note("first", float(x))
    return x

def second(xs):
    for x in xs:
        seen.note("second", float(x))
    if (xs == 13).any():
        raise ValueError("thirteen")
    return xs
"""
DECLARED = """
fn double(x: f32) -> (y: f32) = python "functions.py:double" batched pure
fn miscount(x: f32) -> (y: f32) = python "functions.py:miscount" batched
fn one(k: i64) -> (y: i64) = python "functions.py:echo" batched pure
fn two(k: i64) -> (y: i64) = python "functions.py:echo" batched pure
fn same(a: i64, b: i64) -> (y: i64) = python "functions.py:same" pure
fn first(x: f32) -> (y: f32) = python "functions.py:first"
fn second(x: f32) -> (y: f32) = python "functions.py:second" batched
"""
PIPES = {
    "poisoned": """
pipeline p(x: f32) -> (y: f32) { return y = double(x) }
schedule p on "server" { double { batch { max = 4, wait = 3ms } } }
""",
    "miscounted": """
pipeline p(x: f32) -> (y: f32) batch 4 { return y = miscount(x) }
schedule p on "server" { miscount { batch { max = 8, wait = 3ms } } }
""",
    "joined": """
pipeline p(x: i64) -> (y: i64) {
    a = one(x)
    b = two(x)
    return y = same(a, b)
}
pipeline sent(x: i64) -> stream (y: i64) {
    _ = loop (turn: i64 = 0) max 2 {
        emit y = same(one(x), two(x))
        next turn = turn + 1
    }
}
schedule p on "server" { one { batch { max = 3, wait = 2ms } }, two { batch { max = 2 } } }
schedule sent on "server" { one { batch { max = 3, wait = 2ms } } }
""",
    "chosen": """
pipeline p(x: f32) -> (y: f32) batch 8 { return y = if x > 20 { double(x) } else { x } }
schedule p on "server" { double { batch { max = 4, wait = 3ms } } }
""",
    "counted": """
pipeline p(x: f32) -> (y: f32) batch 20 { return y = double(x) }
schedule p on "server" { double { batch { max = 8, wait = 3ms } } }
""",
    "preferred": """
pipeline p(x: f32) -> (y: f32) { return y = double(x) }
schedule p on "server" { double { batch { max = 8, wait = 3ms, prefer = [4, 8] } } }
""",
    "timed": """
pipeline p(x: f32) -> (y: f32) { return y = first(x) }
schedule p on "server" { queue { size = 16, timeout = 20ms } }
""",
    "bounded": """
pipeline p(x: f32) -> (y: f32) { return y = first(x) }
schedule p on "server" { queue { size = 2 } }
""",
    "inside": """
pipeline p(x: f32) -> (y: f32) { return y = second(first(x)) }
schedule p on "server" { second { resources { place = 1 }, queue { size = 2 } } }
""",
    "staged": """
pipeline p(x: f32) -> (y: f32) { return y = second(first(x)) }
schedule p on "server" { second { batch { max = 2, wait = 4ms }, resources { place = 1 } } }
""",
    "summed": """
pipeline p(x: f32) -> (y: f32) per sequence idle 30s {
    state sum: f32 = 0
    next sum = sum + second(x)
    return y = sum + second(x)
}
schedule p on "server" {
    second { batch { max = 4, wait = 2ms } }
    sequences { strategy = oldest, max = 2, backlog = 2 }
}
""",
}


@cache
def scene_plan(name: str) -> Plan:
    """Return a compiled plan, which is the same for all seeds."""
    with TemporaryDirectory() as folder:
        return compiled(Path(folder), DECLARED + PIPES[name], FUNCTIONS)
