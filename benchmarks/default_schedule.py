"""No default may lose: pipelines as they come, against batching at every model and at none.

OCR, faces and topics of the examples, asked for by eight clients. "As it comes" is what holds where
no schedule is named; the peers put a queue of up to 16 rows in front of every model, or none in
front of any. Fails where as it comes a pipeline takes over 3% longer than the better of the two.
"""

import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from clients import Clients
from crowded_pages import pages
from harness import Contender, Outcome, measure, options, report

import headrace

EXAMPLES = Path(__file__).parent.parent / "examples"
MARGIN = 0.03
EVERYWHERE = "batch { max = 16, wait = 1ms }"
PROMPTS = (
    "Write a function that merges two sorted lists.",
    "Find all primes p such that p + 2 is prime as well, and prove that you have them all.",
    "Which river is longer, the Rhine or the Danube?",
    "Tell me a story about a miller.",
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A pipeline of an example, its models, and what is asked of it."""

    folder: str
    file: str
    pipeline: str
    models: tuple[str, ...]
    inputs: Sequence[dict[str, Any]]  # Any: items


def subjects() -> list[Subject]:
    photo = (EXAMPLES / "faces" / "photos" / "astronaut.jpg").read_bytes()
    read = [{"photo": page} for page in pages()[:6]]
    faces = ("propose", "refine", "decide")
    return [
        Subject("ocr", "ocr", "ocr", ("detect", "angle", "read"), read),
        Subject("faces", "faces", "faces", faces, [{"photo": photo}] * 16),
        Subject("text", "topic", "topic", ("embed",), [{"prompt": text} for text in PROMPTS * 16]),
    ]


def scheduled(subject: Subject, folder: Path) -> list[headrace.CompiledPlan]:
    """Return the pipeline as it comes, with batching everywhere, and with none."""
    shutil.copytree(EXAMPLES / subject.folder, folder / subject.folder)
    pipe = folder / subject.folder / f"{subject.file}.pipe"
    lines = [pipe.read_text()]
    for name, batch in {"everywhere": EVERYWHERE, "nowhere": "batch = off"}.items():
        keys = "\n".join(f"    {model} {{ {batch} }}" for model in subject.models)
        lines.append(f'schedule {subject.pipeline} on "{name}" {{\n{keys}\n}}\n')
    pipe.write_text("\n".join(lines))
    return [headrace.compile(pipe, schedule=one) for one in ("default", "everywhere", "nowhere")]


def compare(subject: Subject, clients: Clients, rounds: int) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        plans = scheduled(subject, Path(folder))
    apps = [headrace.load(plan, intra_op_threads=1) for plan in plans]

    def contender(name: str, app: headrace.App) -> Contender:
        pipeline = app[subject.pipeline]

        def one(inputs: dict[str, Any]) -> object:  # Any: items
            return pipeline.submit(**inputs).result()

        return Contender(name, lambda: clients.ask(one, subject.inputs))

    names = ("as it comes", "batching everywhere", "batching nowhere")
    for given in subject.inputs[:8]:
        first, *others = (app[subject.pipeline](**given) for app in apps)
        for other in others:
            for ours, theirs in zip(first, other, strict=True):
                if not same(ours, theirs):
                    raise SystemExit(f"{subject.pipeline}: {ours} and {theirs}")
    contenders = [contender(name, app) for name, app in zip(names, apps, strict=True)]
    outcome = measure(f"{subject.pipeline}, 8 clients", contenders, rounds=rounds)
    for app in apps:
        app.close()
    return outcome


def same(ours: Any, theirs: Any) -> bool:  # Any: items
    one, other = np.asarray(ours), np.asarray(theirs)
    if one.dtype.kind == "f":
        return one.shape == other.shape and bool(np.allclose(one, other, atol=1e-4))
    return bool(np.array_equal(one, other))


def main() -> int:
    parser = options("What holds by default against batching or not", rounds=7)
    parser.add_argument("--only", help="one pipeline: ocr, faces or topic")
    arguments = parser.parse_args()
    clients = Clients()
    outcomes = [
        compare(one, clients, arguments.rounds)
        for one in subjects()
        if arguments.only in (None, one.pipeline)
    ]
    notes: list[str] = []
    lost = 0
    for outcome in outcomes:
        worst = min(outcome.ratios, key=lambda ratio: ratio.median)
        lost += worst.median < 1 - MARGIN
        notes.append(
            f"{outcome.subject}: as it comes {worst.median:.3f} times as fast as {worst.peer}, "
            "the better of the two"
        )
    report("default_schedule", outcomes, notes)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
