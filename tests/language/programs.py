"""Whole programs: compiled, and run in every way in which they may be run.

A program means one thing: in its caller's thread or among workers, simplified and fused or as it
is written. `answers` runs all four ways and returns the one answer; a failure is an answer too.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import headrace
from headrace.compiler import check, compile_source
from headrace.dsl.diagnostic import Diagnostic, Severity
from headrace.dsl.source import Source
from headrace.pipeline import Pipeline
from headrace.runtime.request import Fault, RequestError

Given: TypeAlias = Mapping[str, Any]  # Any: whatever a caller may hand in
Answer: TypeAlias = list[Any]  # Any: a record as a dict, or the text of a failure
"""What one request is answered: a record, for a stream one after the other, or a failure."""


def source(text: str, folder: Path | None = None, **files: str) -> Source:
    """Return the source of a program beside its Python files, named without `.py`."""
    if folder is None:
        return Source("example.pipe", text)
    for name, content in files.items():
        (folder / f"{name}.py").write_text(content, "utf-8")
    return Source("example.pipe", text, folder / "example.pipe")


def mistakes(text: str, folder: Path | None = None) -> list[Diagnostic]:
    """Return what is wrong with a program, without warnings."""
    return [one for one in check(source(text, folder)) if one.severity is Severity.ERROR]


def answers(program: Source, *given: Given) -> list[Answer]:
    """Return what the first pipeline answers to each of the inputs, however it is run."""
    found: list[list[Answer]] = []
    for optimise in (True, False):
        plan = compile_source(program, optimise=optimise)
        first = plan.pipelines[0]
        with headrace.load(plan, workers=2) as app:
            pipeline = app[first.name]
            ways = (_streamed, _streamed_by_workers) if first.stream else (_called, _submitted)
            names = [field.name for field in first.results]
            found += [[_by_name(way(pipeline, one), names) for one in given] for way in ways]
    for other in found[1:]:
        np.testing.assert_equal(other, found[0])
    return found[0]


def _by_name(answer: Answer, names: Sequence[str]) -> Answer:
    return [one if isinstance(one, str) else dict(zip(names, one, strict=True)) for one in answer]


def _called(pipeline: Pipeline, given: Given) -> Answer:
    try:
        return [pipeline(**given)]
    except (Fault, RequestError) as error:
        return [str(error)]


def _submitted(pipeline: Pipeline, given: Given) -> Answer:
    try:
        return [pipeline.submit(**given).result(20)]
    except (Fault, RequestError) as error:
        return [str(error)]


def _streamed(pipeline: Pipeline, given: Given) -> Answer:
    sent: Answer = []
    try:
        for one in pipeline.stream(**given):
            sent.append(one)
    except (Fault, RequestError) as error:
        sent.append(str(error))
    return sent


def _streamed_by_workers(pipeline: Pipeline, given: Given) -> Answer:
    sent: Answer = []

    async def read() -> None:
        async for one in pipeline.aio_stream(**given):
            sent.append(one)

    try:
        asyncio.run(asyncio.wait_for(read(), 20))
    except (Fault, RequestError) as error:
        sent.append(str(error))
    return sent
