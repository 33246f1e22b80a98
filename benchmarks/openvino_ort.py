"""OpenVINO and ONNX Runtime against each other: each example as a whole, and its models in it.

Every pipeline is compiled twice, with its models on ONNX Runtime and with `backend = openvino` for
those that OpenVINO loads, and both answer in turns, one request at a time and one thread each. What
a model takes is what it took in these very requests, so with the sizes that the example brings. The
answers are compared first: text must be equal, numbers within 0.5%. (A file `openvino.py` in this
folder would be taken for the library.)
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from harness import Contender, Outcome, measure, options, report, summarize

import headrace
from headrace.compiler.driver import compile_source
from headrace.compiler.plan import ModelSegment
from headrace.dsl.read import read_source
from headrace.runtime.load_error import LoadError

EXAMPLES = Path(__file__).parent.parent / "examples"
ORT, OPENVINO = "ONNX Runtime", "OpenVINO"


@dataclass(frozen=True, slots=True)
class Subject:
    """A pipeline of an example, its models as its file calls them, and what is asked of it."""

    file: str
    pipeline: str
    models: tuple[str, ...]
    inputs: Mapping[str, Any]  # Any: items


def subjects() -> list[Subject]:
    page = (EXAMPLES / "ocr" / "pages" / "words40.png").read_bytes()
    photo = (EXAMPLES / "faces" / "photos" / "astronaut.jpg").read_bytes()
    sound = (EXAMPLES / "vad" / "speech.wav").read_bytes()
    points = np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32)
    asked = "Find all primes p such that p + 2 is prime as well, and prove that you have them all."
    return [
        Subject("ocr/ocr.pipe", "ocr", ("detect", "angle", "read"), {"photo": page}),
        Subject("faces/faces.pipe", "faces", ("propose", "refine", "decide"), {"photo": photo}),
        Subject("text/topic.pipe", "topic", ("embed",), {"prompt": asked}),
        Subject("vad/vad.pipe", "speech", ("silero",), {"file": sound}),
        Subject("router/router.pipe", "route", ("identify",), {"file": asked.encode() * 60}),
        Subject("cascade/cascade.pipe", "sort", ("quick", "exact"), {"points": points}),
        Subject("tokens/tokens.pipe", "complete", ("lm",), {"prompt": "the river "}),
    ]


def loaded(subject: Subject, models: Sequence[str]) -> headrace.App:
    """Load the pipeline with some of its models on OpenVINO."""
    path = EXAMPLES / subject.file
    source = read_source(path, path.name)
    stages = "".join(f"    {name} {{ backend = openvino }}\n" for name in models)
    text = f'{source.text}\nschedule {subject.pipeline} on "measured" {{\n{stages}}}\n'
    plan = compile_source(replace(source, text=text), schedule="measured")
    return headrace.load(plan, workers=1, intra_op_threads=1)


def both(subject: Subject, stack: ExitStack) -> "tuple[headrace.App, headrace.App, list[str]]":
    """Load it with all on ONNX Runtime, and with what it takes on OpenVINO; tell what is left."""
    usual = stack.enter_context(loaded(subject, ()))
    taken, left = list(subject.models), list[str]()
    while True:
        try:
            return usual, stack.enter_context(loaded(subject, taken)), left
        except LoadError as error:
            refused = [one for one in taken if f"stage `{one}`" in error.message]
            if not refused:
                raise
            taken.remove(refused[0])
            left.append(f"{subject.pipeline}, {refused[0]}: {error.message.partition(': ')[2]}")


def alike(one: Any, other: Any) -> bool:  # Any: results
    first, second = np.asarray(one), np.asarray(other)
    if first.dtype.kind in "OUS":
        return bool(np.array_equal(first, second))
    return first.shape == second.shape and bool(np.allclose(first, second, rtol=5e-3, atol=5e-3))


def calling(app: headrace.App, subject: Subject) -> Callable[[], Any]:  # Any: a Record
    pipeline = app[subject.pipeline]
    return lambda: pipeline(**subject.inputs)


def seconds_of(app: headrace.App) -> dict[str, float]:
    """Return how long models have run, by the name of the stage."""
    names = [one.name for one in app.plan.segments if isinstance(one, ModelSegment)]
    return {name: app.metrics[0].stage(name).compute_seconds for name in dict.fromkeys(names)}


def time_subject(subject: Subject, rounds: int, notes: list[str]) -> list[Outcome]:
    with ExitStack() as stack:
        usual, taken, left = both(subject, stack)
        notes += [f"left to {ORT}: {one}" for one in left]
        if len(left) == len(subject.models):
            return []
        apps = {ORT: usual, OPENVINO: taken}
        calls = {name: calling(app, subject) for name, app in apps.items()}
        wanted, found = (call() for call in calls.values())
        unlike = [
            name
            for name, one, other in zip(wanted._fields, wanted, found, strict=True)
            if not alike(one, other)
        ]
        if unlike:
            raise SystemExit(f"{subject.pipeline}: {', '.join(unlike)} differ")
        models: dict[str, dict[str, list[float]]] = {}

        def timed(name: str) -> Callable[[], object]:
            def call() -> None:
                before = seconds_of(apps[name])
                calls[name]()
                for stage, after in seconds_of(apps[name]).items():
                    if (spent := after - before[stage]) > 0:
                        models.setdefault(stage, {}).setdefault(name, []).append(spent)

            return call

        contenders = [Contender(name, timed(name)) for name in (OPENVINO, ORT)]
        whole = measure(subject.pipeline, contenders, rounds=rounds)
    parts = [
        summarize(f"{subject.pipeline}, {stage}", rounds, 1, {n: each[n] for n in (OPENVINO, ORT)})
        for stage, each in models.items()
        if len(each) == 2 and len(subject.models) > 1
    ]
    return [whole, *parts]


def main() -> None:
    parser = options((__doc__ or "").partition("\n")[0], rounds=15)
    parser.add_argument("pipelines", nargs="*", help="those to measure; all where none is named")
    given = parser.parse_args()
    outcomes: list[Outcome] = []
    notes: list[str] = []
    for subject in subjects():
        if given.pipelines and subject.pipeline not in given.pipelines:
            continue
        try:
            outcomes += time_subject(subject, given.rounds, notes)
        except headrace.CompileError as error:  # a package with its models is missing
            notes.append(f"{subject.pipeline} is left out: {error.diagnostics[0].message}")
    report("openvino_ort", outcomes, notes)


if __name__ == "__main__":
    main()
