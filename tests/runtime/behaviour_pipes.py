"""The pipelines that behaviours B01 to B23 are shown with, on every driver and over the wire."""

from pathlib import Path

import headrace
from headrace.compiler.plan import Plan

MEETING = "meeting_of_behaviours"
"""The name under which stages import a `Meeting`."""

FUNCTIONS = """
import numpy as np
import meeting_of_behaviours as meeting

def detect(n):
    return np.arange(int(n) * 4, dtype=np.float32).reshape(int(n), 4)

def classify(boxes):
    return boxes[:, :3] * 2, [f"box {int(box[0]) // 4}" for box in boxes]

def scaled(x, by):
    return x * by

def together(xs):
    meeting.meet()
    return xs

def check(xs):
    if (xs == 13).any():
        raise ValueError("thirteen")
    return xs * 2

def miscount(xs):
    return np.zeros(3, np.float32)

def alone(x):
    return x + 1

def third(x):
    if x == 13:
        raise ValueError("thirteen")
    return x + 1

def echo(k):
    return k

def same(a, b, c):
    if not a == b == c:
        raise ValueError(f"{a}, {b} and {c} have met")
    return a

def expensive(xs):
    return xs * 100
"""
PIPE = """
fn detect(n: i64) -> (box: f32[N, 4]) = python "functions.py:detect" pure
fn classify(box: f32[4]) -> (score: f32[3], label: string)
    = python "functions.py:classify" batched pure
fn scaled(x: f32, by: f32) -> (y: f32) = python "functions.py:scaled" pure
fn together(x: f32) -> (y: f32) = python "functions.py:together" batched
fn check(x: f32) -> (y: f32) = python "functions.py:check" batched pure
fn miscount(x: f32) -> (y: f32) = python "functions.py:miscount" batched pure
fn alone(x: f32) -> (y: f32) = python "functions.py:alone" pure
fn other(x: f32) -> (y: f32) = python "functions.py:alone"
fn third(x: f32) -> (y: f32) = python "functions.py:third"
fn one(k: i64) -> (k: i64) = python "functions.py:echo" batched pure
fn two(k: i64) -> (k: i64) = python "functions.py:echo" batched pure
fn three(k: i64) -> (k: i64) = python "functions.py:echo" batched pure
fn same(a: i64, b: i64, c: i64) -> (k: i64) = python "functions.py:same"
fn expensive(x: f32) -> (y: f32) = python "functions.py:expensive" batched pure

# B01, B02
pipeline pages(n: i64) -> (score: f32[N, 3], label: string[N]) {
    boxes = detect(n)
    found = for box in boxes {
        one = classify(box)
        yield score = one.score, label = one.label
    }
    return score = found.score, label = found.label
}
# B03
pipeline small(x: f32) -> (y: f32) batch 8 { return y = check(x) }
pipeline large(x: f32) -> (y: f32) batch 32 { return y = check(x) }
# B06
pipeline inner(x: f32, by: f32 = 2.0) -> (y: f32) { return y = scaled(x, by) }
pipeline outer(x: f32, by: f32 = 0.5) -> (given: f32, passed: f32, left: f32) {
    return given = scaled(x, by), passed = inner(x, by), left = inner(x)
}
# B11
pipeline branches(x: f32) -> (a: f32, b: f32) { return a = alone(x), b = check(x) }
# B13
pipeline five(x: f32) -> (y: f32) { return y = other(other(third(alone(alone(x))))) }
# B14, B15
pipeline poison(x: f32) -> (y: f32) { return y = check(together(x)) }
pipeline count(x: f32) -> (y: f32) batch 8 { return y = miscount(together(x)) }
# B16
pipeline joined(k: i64) -> (k: i64) {
    a = one(k)
    b = two(k)
    c = three(two(k))
    return k = same(a, b, c)
}
pipeline sent(k: i64) -> stream (k: i64) {
    _ = loop (turn: i64 = 0) max 3 {
        emit k = same(one(k), two(k), three(k))
        next turn = turn + 1
    }
}
# B17
pipeline chosen(x: f32) -> (y: f32) batch 16 {
    return y = if x > 20 { expensive(x) } else { 0.5 }
}

schedule pages on "server"  { classify { batch { max = 8, wait = 2ms } } }
schedule small on "server"  { check { batch { max = 8, wait = 5s } } }
schedule large on "server"  { check { batch { max = 8, wait = 5s } } }
schedule poison on "server" { check { batch { max = 8, wait = 5s } } }
schedule count on "server"  { miscount { batch { max = 8, wait = 5s } } }
schedule joined on "server" {
    one { batch { max = 7, wait = 1ms } }, two { batch { max = 4 } },
    three { batch { max = 3, wait = 2ms } }
}
schedule sent on "server"   { one { batch { max = 7, wait = 1ms } } }
schedule chosen on "server" { expensive { batch { max = 16, wait = 1ms } } }
"""


def compiled(folder: Path, pipe: str = PIPE, functions: str = FUNCTIONS) -> Plan:
    """Write the files and compile them."""
    (folder / "functions.py").write_text(functions)
    (folder / "pipes.pipe").write_text(pipe)
    return headrace.compile(folder / "pipes.pipe", schedule="server").plan
