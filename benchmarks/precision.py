"""Models of the examples in int8 beside the same in f32: time of a row on one thread, size, how far
off, and whether the pipeline still gives the same answers.

Each model is calibrated with what the tests of its example give, and timed on the row of middle
size among these. Then OCR reads its pages and the faces on a photo are found, with each model in
int8 alone and with all of them.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime
from harness import Contender, Outcome, cores, measure, options, report

import headrace
from headrace.calibrate import calibrating_of
from headrace.compiler import Compiled, compile_with_warnings
from headrace.compiler.plan import ModelSegment
from headrace.compiler.precision.calibration import Calibrated, Calibrating, Calibration, Row
from headrace.compiler.precision.report import describe
from headrace.dsl.diagnostic import CompileError
from headrace.dsl.source import Source

EXAMPLES = Path(__file__).parent.parent / "examples"
PRECISIONS = ("int8", "fp16")


@dataclass(frozen=True, slots=True)
class Example:
    """A source, the pipeline that is looked at, and its models."""

    path: str
    pipeline: str
    models: tuple[str, ...]


OCR = Example("ocr/ocr.pipe", "ocr", ("detect", "angle", "read"))
FACES = Example("faces/faces.pipe", "faces", ("propose", "refine", "decide"))
VAD = Example("vad/vad.pipe", "vad", ("silero",))
ROUTER = Example("router/router.pipe", "route", ("identify",))


def scheduled(example: Example, models: Sequence[str], precision: str) -> Source:
    """Return a source with one more schedule, which asks for a precision of some models."""
    path = EXAMPLES / example.path
    asked = "".join(f"    {model} {{ precision = {precision} }}\n" for model in models)
    more = f'\nschedule {example.pipeline} on "{precision}" {{\n{asked}}}\n'
    return Source(path.name, path.read_text("utf-8") + more, path)


class Rows:
    """What comes to the models of an example in its tests, which run once."""

    def __init__(self, example: Example, plain: Compiled) -> None:
        record = calibrating_of(scheduled(example, (), "f32"), None).record
        assert record is not None
        self.digests = {model: digest(plain, model) for model in example.models}
        self._rows = record(frozenset(self.digests.values()))
        self._found: list[Calibrated] = []

    def compiled(
        self, example: Example, models: Sequence[str], precision: str, fuse: bool
    ) -> Compiled:
        """Compile with some models in a precision; what was found of one is not found again."""
        found = {(one.stage, one.precision.value): one for one in self._found}
        known = all((model, precision) in found for model in models)
        calibrating = (
            Calibrating(Calibration(tuple(self._found)))
            if known
            else Calibrating(record=self._record)
        )
        made = compile_with_warnings(
            scheduled(example, models, precision),
            schedule=precision,
            optimise=fuse,
            calibrating=calibrating,
        )
        self._found += made.calibration.models if not known else ()
        return made

    def _record(self, _wanted: frozenset[str]) -> Mapping[str, Sequence[Row]]:
        return self._rows

    def middle(self, model: str) -> Row:
        rows = self._rows[self.digests[model]]
        return sorted(rows, key=lambda row: sum(one.nbytes for one in row.values()))[len(rows) // 2]


def plain_of(example: Example) -> Compiled:
    return compile_with_warnings(scheduled(example, (), "f32"), schedule="f32", optimise=False)


def digest(compiled: Compiled, model: str) -> str:
    segments = compiled.plan.segments
    found = (one for one in segments if isinstance(one, ModelSegment) and one.name == model)
    return next(found).model


def running(model: bytes, row: Row) -> Callable[[], object]:
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    feeds = {name: row[name] for name in names}

    def run() -> None:
        session.run(None, feeds)

    return run


def models_of(
    example: Example, plain: Compiled, known: Rows, rounds: int
) -> tuple[list[Outcome], list[str]]:
    """Time each model of an example in each precision beside f32, and say how far off it is."""
    outcomes: list[Outcome] = []
    notes: list[str] = []
    for model in example.models:
        original, row = plain.plan.blob(digest(plain, model)), known.middle(model)
        shape = "x".join(map(str, next(iter(row.values())).shape))
        contenders = {"f32": running(original, row)}
        for precision in PRECISIONS:
            try:
                rewritten = known.compiled(example, (model,), precision, fuse=False)
            except CompileError as error:
                notes.append(f"{model}: {error.diagnostics[0].message}")
                continue
            notes.append(f"{model} in {describe(rewritten.rewritten[0])}")
            contenders[precision] = running(rewritten.plan.blob(digest(rewritten, model)), row)
        ours = contenders.pop("int8", None)
        if ours is not None:
            named = [Contender("int8", ours), *(Contender(*one) for one in contenders.items())]
            outcomes.append(measure(f"{model} {shape}", named, rounds=rounds, calls=3))
    return outcomes, notes


# Any below: results of a pipeline, whatever their types are


def answers(
    example: Example,
    known: Rows,
    given: Mapping[str, bytes],
    said: Callable[[Any], list[str]],
    rounds: int,
) -> tuple[list[Outcome], list[str]]:
    """Time a whole pipeline with models in int8 beside f32, and count equal answers."""
    outcomes: list[Outcome] = []
    notes: list[str] = []
    plain = compile_with_warnings(scheduled(example, (), "f32"), schedule="f32").plan
    chosen = [(model,) for model in example.models] + [example.models]
    with headrace.load(plain, intra_op_threads=1) as app:
        wanted = {name: said(app[example.pipeline](photo=photo)) for name, photo in given.items()}
        for models in chosen:
            plan = known.compiled(example, models, "int8", fuse=True).plan
            with headrace.load(plan, intra_op_threads=1) as other:
                found = {
                    name: said(other[example.pipeline](photo=photo))
                    for name, photo in given.items()
                }
                title = " + ".join(models)
                for name in given:
                    same = sum((Counter(wanted[name]) & Counter(found[name])).values())
                    notes.append(
                        f"{example.pipeline} with {title} in int8, {name}: {same} of "
                        f"{len(wanted[name])} answers are equal, {len(found[name])} given"
                    )
                name, photo = next(iter(given.items()))

                def ours(pipeline: Any = other[example.pipeline], photo: bytes = photo) -> None:
                    pipeline(photo=photo)

                def theirs(pipeline: Any = app[example.pipeline], photo: bytes = photo) -> None:
                    pipeline(photo=photo)

                contenders = [Contender(f"{title} in int8", ours), Contender("f32", theirs)]
                outcomes.append(measure(f"{example.pipeline}, {name}", contenders, rounds=rounds))
    return outcomes, notes


def pages() -> dict[str, bytes]:
    names = ("words40", "sign", "tiny")
    return {name: (EXAMPLES / "ocr" / "pages" / f"{name}.png").read_bytes() for name in names}


def photos() -> dict[str, bytes]:
    import skimage

    return {"astronaut": (Path(skimage.__file__).parent / "data" / "astronaut.png").read_bytes()}


def main() -> int:
    parser = options("models in int8 beside f32", rounds=15)
    parser.add_argument("--models", action="store_true", help="leave out whole pipelines")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    outcomes: list[Outcome] = []
    notes: list[str] = []
    looked_at: dict[str, tuple[Mapping[str, bytes], Callable[[Any], list[str]]]] = {
        "ocr": (pages(), lambda found: list(found.text)),
        "faces": (photos(), lambda found: [str(box.tolist()) for box in found.box]),
    }
    with cores(1):
        for example in (OCR, FACES, VAD, ROUTER):
            plain = plain_of(example)
            known = Rows(example, plain)
            found = [models_of(example, plain, known, rounds)]
            if example.pipeline in looked_at and not arguments.models:
                given, said = looked_at[example.pipeline]
                found.append(answers(example, known, given, said, max(3, rounds // 3)))
            for timed, noted in found:
                outcomes += timed
                notes += noted
    report("precision", outcomes, notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
