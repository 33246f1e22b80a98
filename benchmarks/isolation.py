"""What a worker process costs: a stage in Python with `isolate`, and the same stage without."""

import sys
import tempfile
from pathlib import Path

import numpy as np
from harness import Contender, Outcome, duration, measure, options, report

import headrace

SIZES = {"16 floats": 16, "4 MB": 1 << 20}
PYTHON = """
def double(x):
    return x + x
"""
PIPE = """
fn double(x: f32[N]) -> (y: f32[N]) = python "stages.py:double"
pipeline p(x: f32[N]) -> (y: f32[N]) { return y = double(x) }
"""
ISOLATED = 'schedule p on "server" { double { isolate = on } }'


def plan(folder: Path, schedule: str) -> headrace.CompiledPlan:
    (folder / "stages.py").write_text(PYTHON)
    (folder / "p.pipe").write_text(PIPE + schedule)
    return headrace.compile(folder / "p.pipe")


def main() -> int:
    arguments = options("What running a stage in a worker process costs", rounds=31).parse_args()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        plans = [plan(Path(folder), schedule) for schedule in (ISOLATED, "")]
    with headrace.load(plans[0]) as isolated, headrace.load(plans[1]) as inside:
        for name, size in SIZES.items():
            x = np.arange(size, dtype=np.float32)
            np.testing.assert_array_equal(isolated.p(x=x).y, inside.p(x=x).y)
            contenders = [
                Contender("isolated", lambda x=x: isolated.p(x=x)),
                Contender("in process", lambda x=x: inside.p(x=x)),
            ]
            calls = 200 if size < 1000 else 20
            outcomes.append(
                measure(name, contenders, rounds=arguments.rounds, calls=calls, warmup=20)
            )
    notes = [
        f"{one.subject}: a worker process takes {duration(one.ratios[0].extra)} more"
        for one in outcomes
    ]
    report("isolation", outcomes, notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
