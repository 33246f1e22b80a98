"""Whose executions are whose: of pipelines that are one model, and of those that are several."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headrace.compiler import compile_source
from headrace.dsl.read import read_source
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.repository.model_counts import ModelCounts
from headrace.runtime.repository.repository import Repository
from headrace.runtime.request import Fault, Request

FUNCTIONS = """
def twice(x):
    if (x < 0).any():
        raise ValueError("it is less than nothing")
    return x * 2


thrice = shared = twice
"""
SOURCE = """
fn twice(x: f32[2]) -> (y: f32[2]) = python "f.py:twice" pure
fn thrice(x: f32[2]) -> (y: f32[2]) = python "f.py:thrice" pure
fn shared(x: f32[2]) -> (y: f32[2]) = python "f.py:shared" pure

pipeline one(x: f32[2]) -> (y: f32[2]) batch 8 { return y = twice(x) + 1.0 }
pipeline two(x: f32[2]) -> (y: f32[2]) batch 8 { return y = thrice(shared(x)) }
pipeline other(x: f32[2]) -> (y: f32[2]) batch 8 { return y = shared(x) }
pipeline some(x: f32[2]) -> (y: f32[2]) { return y = if x[0] > 1.0 { shared(x) } else { x } }

schedule one { twice { cache = 1MiB } }
"""


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    (tmp_path / "f.py").write_text(FUNCTIONS)
    (tmp_path / "all.pipe").write_text(SOURCE)
    engine = Engine(compile_source(read_source(tmp_path / "all.pipe")), EngineConfig(workers=1))
    repository = Repository()
    repository.adopt("all", engine)
    yield repository
    repository.close()
    engine.close()


def ask(repository: Repository, pipeline: str, *rows: float) -> None:
    value = np.array([[row, row] for row in rows], np.float32)
    inputs = {"x": value if pipeline != "some" else value[0]}
    (engine,) = repository.engines
    engine.call(Request(pipeline, inputs))


def counts(repository: Repository, pipeline: str) -> ModelCounts:
    return repository.totals().models[pipeline, "1"]


def test_a_pipeline_that_is_one_function_has_its_executions(repository: Repository) -> None:
    ask(repository, "one", 1, 2, 3)
    ask(repository, "one", 1, 2, 3)
    with pytest.raises(Fault):
        ask(repository, "one", -1)
    found = counts(repository, "one")
    assert (found.successes, found.failed, found.inferences) == (2, 1, 6)
    assert (found.batches, found.executions) == ({3: 1, 1: 1}, 2)
    assert found.batch_seconds[3] > 0
    assert (found.hits, found.misses) == (3, 4)  # of rows


@pytest.mark.parametrize("pipeline", ["two", "other"])
def test_what_is_more_or_is_shared_is_executed_once_a_request(
    repository: Repository, pipeline: str
) -> None:
    ask(repository, pipeline, 1, 2, 3)
    ask(repository, pipeline, 1)
    ask(repository, "some", 0)
    found = counts(repository, pipeline)
    assert (found.successes, found.inferences, found.batches) == (2, 4, {3: 1, 1: 1})
    assert counts(repository, "some").batches == {1: 1}


def test_nothing_is_executed_for_no_rows(repository: Repository) -> None:
    for pipeline in ("one", "two"):
        (engine,) = repository.engines
        engine.call(Request(pipeline, {"x": np.zeros((0, 2), np.float32)}))
        found = counts(repository, pipeline)
        assert (found.successes, found.inferences, found.executions) == (1, 0, 0)
