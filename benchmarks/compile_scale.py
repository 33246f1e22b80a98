"""How checking and compiling grow with the length of a pipeline, and that nothing blows up.

A pipeline of N stages, one a line, is parsed and checked, and compiled into the bytes of a plan.
The exponent is the slope of log time over log N, from the least squares of all sizes: 1 is
linear. There is no peer; the limits are 1 s for 1,000 stages and 12 s for 10,000. A pipeline of
200 blocks inside one another goes the same way, where time grows with the depth of each line.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from harness import Contender, Outcome, duration, measure, options, report

from headrace.compiler.driver import compile_source
from headrace.compiler.front import check
from headrace.compiler.plan_file import to_bytes
from headrace.dsl.source import Source

SIZES = (250, 500, 1_000, 2_000, 5_000, 10_000)
LIMITS = {1_000: 1.0, 10_000: 12.0}
DEPTH = 200


def stages(count: int) -> Source:
    """Return a pipeline of that many stages, of four kinds."""
    kinds = ("math.abs({0}) + {1}.0", "{0} * 0.5", "math.maximum({0}, {2})", "{0} - {2}")
    lines = ["use math", "", "pipeline scale(x0: f32[H, 4], z: f32[H, 4]) -> (y: f32[H, 4]) {"]
    names = ["x0", *(f"x{i + 1}" for i in range(count))]
    for i in range(count):
        code = kinds[i % 4].format(names[i], i, names[i - 3] if i > 3 else "z")
        lines.append(f"    {names[i + 1]} = {code}")
    lines += [f"    return y = {names[-1]}", "}", ""]
    return Source("scale.pipe", "\n".join(lines), Path.cwd() / "scale.pipe")


def blocks(depth: int) -> Source:
    """Return a pipeline of blocks inside one another: `if`, `for` and `match` in turn."""
    before, value = "", "x + 1.0"
    for level in range(depth):
        name = f"a{level}"
        match level % 3:
            case 0:
                before = f"{name} = if flag {{\n{before}{value}\n}} else {{\nx\n}}\n"
                value = name
            case 1:
                before = f"{name} = for r{level} in rows {{\n{before}yield {value} + r{level}\n}}\n"
                value = f"{name}[0]"
            case _:
                before = f"{name} = match n {{\n{level} => x\n_ => {{\n{before}{value}\n}}\n}}\n"
                value = name
    head = "pipeline deep(x: f32[3], rows: f32[1, 3], flag: bool, n: i64) -> (y: f32[3])"
    text = f"{head} {{\n{before}return y = {value}\n}}\n"
    return Source("deep.pipe", text, Path.cwd() / "deep.pipe")


def checked(source: Source) -> None:
    """Parse and check a source; it must be right."""
    found = check(source)
    if found:
        raise SystemExit(f"the benchmark's own pipeline is refused: {found[0].message}")


def compiled(source: Source) -> None:
    """Do all that `headrace compile` does but writing the file."""
    to_bytes(compile_source(source))


def run(subject: str, source: Source, work: Callable[[Source], None], rounds: int) -> Outcome:
    return measure(subject, [Contender("headrace", lambda: work(source))], rounds=rounds, warmup=1)


def exponent(sizes: Sequence[int], outcomes: Sequence[Outcome]) -> float:
    """Return the slope of log time over log size."""
    times = [outcome.timings[0].median for outcome in outcomes]
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def main() -> int:
    parser = options("How checking and compiling grow with the length of a pipeline", rounds=3)
    parser.add_argument("--most", type=int, default=SIZES[-1], help=f"default {SIZES[-1]} stages")
    arguments = parser.parse_args()
    sizes = [size for size in SIZES if size <= arguments.most]
    checked(stages(10))
    outcomes: list[Outcome] = []
    notes: list[str] = []
    for verb, work in (("parse and check", checked), ("compile", compiled)):
        found = [run(f"{verb} {n:,} stages", stages(n), work, arguments.rounds) for n in sizes]
        outcomes += found
        notes.append(
            f"{verb}: time grows with the number of stages to {exponent(sizes, found):.2f}"
        )
    for verb, work in (("parse and check", checked), ("compile", compiled)):
        subject = f"{verb} {DEPTH} blocks inside one another"
        outcomes.append(run(subject, blocks(DEPTH), work, arguments.rounds))
    missed = [
        f"parse and check of {size:,} stages took {duration(outcome.timings[0].median)}, and may "
        f"take {duration(LIMITS[size])}"
        for size, outcome in zip(sizes, outcomes, strict=False)
        if outcome.timings[0].median > LIMITS.get(size, float("inf"))
    ]
    report("compile_scale", outcomes, [*notes, *missed])
    return 1 if missed else 0


if __name__ == "__main__":
    start = time.perf_counter()
    code = main()
    print(f"took {duration(time.perf_counter() - start)}")
    sys.exit(code)
