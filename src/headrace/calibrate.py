"""What models are calibrated with when a source is compiled: samples, or what its tests give.

Samples go through the pipelines as they are written, in f32, up to the models that are to be in
another precision, and what comes to these is kept. Only what a schedule asks for is run.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from .compiler import compile_as_written
from .compiler.plan import ModelSegment, Plan
from .compiler.plan_walk import segments_of
from .compiler.precision import calibration_file
from .compiler.precision.calibration import Calibrating, Row
from .dsl import ast
from .dsl.parse import parse
from .dsl.source import Source
from .expect import Evaluator, Unclear, rounds
from .runtime.request import Fault
from .samples import Inputs, Sample, SampleError, inputs_for, read_samples, samples_of

SUFFIX: Final = ".calibration"

Given: TypeAlias = "str | os.PathLike[str] | Sequence[Inputs] | None"
"""A file or folder of samples, the file of an earlier calibration, samples as values, or nothing:
the tests of the source."""


def calibrating_of(source: Source, given: Given, tolerance: float | None = None) -> Calibrating:
    """Return what a compilation may calibrate with; raises CalibrationError and SampleError."""
    match given:
        case None:
            return Calibrating(record=partial(_tests, source), tolerance=tolerance)
        case str() | os.PathLike():
            path = Path(given)
            if path.suffix == SUFFIX:
                return Calibrating(calibration_file.read(path), tolerance=tolerance)
            samples = read_samples(path)
        case _:
            samples = samples_of(given)
    return Calibrating(record=partial(_samples, source, samples), tolerance=tolerance)


def _samples(
    source: Source, samples: Sequence[Sample], wanted: frozenset[str]
) -> Mapping[str, Sequence[Row]]:
    """Run samples through each pipeline that takes them, in turn as one sequence."""
    plan = compile_as_written(source)
    taken: dict[str, list[Sequence[Inputs]]] = {}
    for pipeline in _using(plan, wanted):
        found = [inputs_for(plan.pipeline(pipeline), sample) for sample in samples]
        inputs = [one for one in found if one is not None]
        if len(inputs) == len(samples):
            taken[pipeline] = [inputs]
    if not taken:
        signatures = "; ".join(
            f"`{name}` takes {', '.join(str(one.field) for one in plan.pipeline(name).parameters)}"
            for name in _using(plan, wanted)
        )
        named = sorted({name for sample in samples for name in sample.inputs if name})
        what = ", ".join(named) or "one file each"
        raise SampleError("HR432", f"no pipeline takes these samples ({what}): {signatures}")
    return _rows(plan, taken, wanted, "a sample")


def _tests(source: Source, wanted: frozenset[str]) -> Mapping[str, Sequence[Row]]:
    """Run what tests give that stub no stage; a test is a sequence of its own."""
    tests = [one for one in parse(source).items if isinstance(one, ast.Test)]
    plain = [one for one in tests if not any(isinstance(step, ast.Stub) for step in one.steps)]
    if not plain:
        return {}
    plan = compile_as_written(source)
    using = _using(plan, wanted)
    taken: dict[str, list[Sequence[Inputs]]] = {}
    for test in plain:
        if (name := test.pipeline.text) in using:
            keeps = plan.pipeline(name).idle is not None
            taken.setdefault(name, []).append(_requests(source, test, keeps))
    return _rows(plan, taken, wanted, "a test")


def _requests(source: Source, test: ast.Test, keeps: bool) -> list[Inputs]:
    before, given, found = Evaluator(source, {}, None), dict[str, object](), list[Inputs]()
    try:
        for steps in rounds(test) if keeps else [test.steps]:
            given |= {
                step.name.text: before.value(step.value)
                for step in steps
                if isinstance(step, ast.Given)
            }
            found.append(dict(given))
    except Unclear as unclear:
        said = unclear.diagnostic
        raise SampleError("HR432", f"{said.primary.span}: {said.message}", said.help) from unclear
    return found


def _using(plan: Plan, wanted: frozenset[str]) -> tuple[str, ...]:
    """Return the pipelines that run any of the models."""
    models = {
        index
        for index, one in enumerate(plan.segments)
        if isinstance(one, ModelSegment) and one.model in wanted
    }
    return tuple(one.name for one in plan.pipelines if models & set(segments_of(one.body)))


def _rows(
    plan: Plan, taken: Mapping[str, Sequence[Sequence[Inputs]]], wanted: frozenset[str], what: str
) -> Mapping[str, Sequence[Row]]:
    from .runtime.given_rows import model_rows  # what compiles seldom runs anything

    try:
        return model_rows(plan, taken, wanted)
    except Fault as fault:
        raise SampleError("HR432", f"{what} does not run: {fault}") from fault
