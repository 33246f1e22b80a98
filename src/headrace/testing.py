"""Runs the `test` blocks of a program.

A test is a plan of its own: nothing is fused and stubbed stages return what their stubs say, so
that a stubbed model's file need not exist and each stage is counted by its name in the source.
Tests with the same stubs share the plan.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from .compiler import compile_for_test
from .compiler.stubs import Given
from .dsl import ast
from .dsl.diagnostic import Diagnostic, Label
from .dsl.parse import parse
from .dsl.source import Source
from .expect import Evaluator, Step, Unclear, Value, rounds
from .runtime.engine import Engine, EngineConfig
from .runtime.in_sequence import first_of
from .runtime.request import Fault, InSequence, Request
from .stdlib.dtypes import from_numpy

_LONG = 300  # characters of a value in a message


@dataclass(frozen=True, slots=True)
class TestResult:
    """`failures` is empty when the test has passed."""

    __test__ = False  # not a test itself, whatever its name says to pytest

    test: ast.Test
    failures: tuple[Diagnostic, ...]
    seconds: float


def run_tests(source: Source) -> Iterator[TestResult]:
    """Run the tests of a source one after the other; raises CompileError for mistakes in it."""
    tests = [item for item in parse(source).items if isinstance(item, ast.Test)]
    with ExitStack() as opened:
        engines: dict[tuple[str, str], Engine] = {}
        for test in tests:
            start = time.perf_counter()
            failures = _run(test, source, engines, opened)
            yield TestResult(test, tuple(failures), time.perf_counter() - start)


def _run(
    test: ast.Test, source: Source, engines: dict[tuple[str, str], Engine], opened: ExitStack
) -> list[Diagnostic]:
    before = Evaluator(source, {}, None)
    try:
        stubs = {
            step.stage.text: _stub(step, before)
            for step in test.steps
            if isinstance(step, ast.Stub)
        }
        key = (test.pipeline.text, repr(stubs))
        if key not in engines:
            plan = compile_for_test(source, test.pipeline.text, stubs)
            engines[key] = Engine(plan, EngineConfig(workers=1))
            opened.callback(engines[key].close)
        return _requests(test, source, engines[key], before)
    except Unclear as unclear:
        return [unclear.diagnostic]


def _stub(step: ast.Stub, before: Evaluator) -> Given:
    """Return a stub's fields as Python text that gives them back."""
    fields: list[tuple[str | None, str]] = []
    for field in step.fields:
        value = before.value(field.value)
        plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        fields.append((field.name.text if field.name is not None else None, repr(plain)))
    return fields


def _requests(
    test: ast.Test, source: Source, engine: Engine, before: Evaluator
) -> list[Diagnostic]:
    """Send the requests of a test; those to a pipeline with state are one sequence, begun anew."""
    kept = engine.sequences.get(test.pipeline.text)
    first = first_of(engine.plan.pipeline(test.pipeline.text))
    failures: list[Diagnostic] = []
    given: dict[str, Value] = {}
    for number, steps in enumerate([test.steps] if kept is None else rounds(test)):
        given |= {
            step.name.text: before.value(step.value)
            for step in steps
            if isinstance(step, ast.Given)
        }
        sequence = None if kept is None else replace(first, start=number == 0)
        failures += _call(test, steps, source, engine, given, sequence)
    return failures


def _call(
    test: ast.Test,
    steps: Sequence[Step],
    source: Source,
    engine: Engine,
    given: dict[str, Value],
    sequence: InSequence | None,
) -> list[Diagnostic]:
    counted = _counts(engine)
    try:
        request = Request(test.pipeline.text, given, sequence=sequence)
        outputs = engine.call(request).outputs
    except Fault as fault:
        return [
            Diagnostic(
                "HR512",
                "this test could not be run",
                Label(test.title.span, "the pipeline failed"),
                notes=tuple(str(fault).splitlines()),
            )
        ]
    ran = {name: count - counted[name] for name, count in _counts(engine).items()}
    after = Evaluator(source, {**given, **outputs}, ran.get)
    failures: list[Diagnostic] = []
    for step in steps:
        if isinstance(step, ast.Expect):
            try:
                failure = _check(step.condition, after)
            except Unclear as unclear:
                failure = unclear.diagnostic
            if failure is not None:
                failures.append(failure)
    return failures


def _counts(engine: Engine) -> dict[str, int]:
    """Return for how many items each stage has run."""
    counts: dict[str, int] = {}
    for stage in engine.metrics.stages:
        counts[stage.name] = counts.get(stage.name, 0) + stage.rows
    return counts


def _check(condition: ast.Expr, after: Evaluator) -> Diagnostic | None:
    held = after.value(condition)
    if np.all(held):
        return None
    notes: list[str] = []
    if isinstance(condition, ast.Binary) and condition.op not in ("and", "or"):
        left, right = after.value(condition.left), after.value(condition.right)
        for side, value in ((condition.left, left), (condition.right, right)):
            if not _is_literal(side):
                notes.append(f"`{side.span.text}` is {_show(value)}")
        notes += _difference(condition, left, right, held)
    label = Label(condition.span, notes[0] if notes else f"it is {_show(held)}")
    return Diagnostic("HR511", "this does not hold", label, notes=tuple(notes[1:]))


def _difference(condition: ast.Binary, left: Value, right: Value, held: Value) -> list[str]:
    """Say where arrays differ, for what cannot be seen at once."""
    if condition.op != "==":
        return []
    shapes = np.shape(left), np.shape(right)
    if () not in shapes and shapes[0] != shapes[1]:
        return [f"shapes differ: {_shape(shapes[0])} and {_shape(shapes[1])}"]
    wrong = np.argwhere(np.logical_not(held))
    if np.ndim(held) == 0 or np.size(held) <= 1:
        return []
    first = tuple(int(i) for i in wrong[0])
    found = [np.asarray(side)[first] if np.ndim(side) else side for side in (left, right)]
    at = ", ".join(map(str, first))
    return [
        f"{len(wrong)} of {np.size(held)} differ, first [{at}]: "
        f"{_show(found[0])}, expected {_show(found[1])}"
    ]


def _is_literal(node: ast.Expr) -> bool:
    match node:
        case ast.ListLiteral(items):
            return all(map(_is_literal, items))
        case ast.Unary(_, operand):
            return _is_literal(operand)
        case _:
            return isinstance(node, ast.Number | ast.String | ast.Bool)


def _show(value: Value) -> str:
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)  # Any: of any shape and dtype
        body = np.array2string(array, separator=", ", threshold=24, edgeitems=3)
        text = " ".join(body.split()).replace("'", '"') if array.size else "empty"
        kind = from_numpy(array.dtype)
        text = f"{text} ({kind.value})" if kind is not None and array.size else text
    elif isinstance(value, str):
        text = f'"{value}"'
    elif isinstance(value, np.generic):
        text = str(value.item())
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, bytes):
        text = f"{len(value)} bytes"
    elif isinstance(value, list):
        items = cast("list[Value]", value)
        text = f"[{', '.join(map(_show, items[:24]))}{', ...' if len(items) > 24 else ''}]"
    else:
        text = str(value)
    return text if len(text) <= _LONG else f"{text[: _LONG - 4]} ..."


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
