"""Python functions and classes that ask for the request: how they are seen, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.compiler import check, compile_source
from headrace.compiler.plan import PythonSegment, Service
from headrace.compiler.plan_file import PlanError, read, to_bytes
from headrace.dsl.source import Source
from tests.compiler.sources import errors_in, graph_of

IMPORTS = """
from __future__ import annotations
import zmq
from typing import Optional, TYPE_CHECKING
import headrace
import headrace as hr
from headrace import Context as Asked
if TYPE_CHECKING:
    from headrace import Context
"""
CALL = "pipeline p(x: f32) -> (y: f32) { return y = f(x) }\n"


def program(folder: Path, function: str, how: str = "") -> str:
    (folder / "f.py").write_text(IMPORTS + function)
    return f'fn f(x: f32) -> (y: f32) = python "f.py:f"{how}\n{CALL}'


@pytest.mark.parametrize(
    ("parameter", "how"),
    [
        ("c: headrace.Context", ""),
        ("c: hr.Context", ""),
        ("c: Asked", ""),
        ("c: Context", ""),
        ("c: 'headrace.Context'", ""),
        ("c: Asked | None = None", ""),
        ("c: Optional[Asked] = None", ""),
        ("c: list[headrace.Context]", " batched"),
        ("c: 'list[Context]'", " batched"),
    ],
)
def test_a_function_asks_by_the_type_of_its_last_parameter(
    tmp_path: Path, parameter: str, how: str
) -> None:
    graph = graph_of(program(tmp_path, f"def f(x, {parameter}): ...", how), tmp_path)
    assert graph.functions[0].told


@pytest.mark.parametrize("parameter", ["c: zmq.Context = None", "c: 'no type' = 1", "c=None", "*c"])
def test_no_other_parameter_asks(tmp_path: Path, parameter: str) -> None:
    graph = graph_of(program(tmp_path, f"def f(x, {parameter}): ..."), tmp_path)
    assert not graph.functions[0].told


@pytest.mark.parametrize(
    ("function", "how", "error"),
    [
        (
            "def f(c: Asked, x): ...",
            "",
            "the request comes behind the arguments, and `c` does not stand there",
        ),
        (
            "def f(x, *, c: Asked): ...",
            "",
            "the request comes behind the arguments, and `c` does not stand there",
        ),
        (
            "def f(x, c: list[Asked]): ...",
            "",
            "`f` gets one request, and `c` is declared as another thing",
        ),
        (
            "def f(x, c: Asked): ...",
            " batched",
            "`f` gets a list of requests, one a row, and `c` is declared as another thing",
        ),
        (
            "def f(x, c: Asked): ...",
            " pure",
            "`f` is declared `pure`, and asks for the request that it serves",
        ),
        ("def f(c: Asked): ...", "", "`f` takes 0 arguments, but 1 is declared"),
        ("def f(x, y, c: Asked): ...", "", "`f` takes 2 arguments, but 1 is declared"),
    ],
)
def test_a_request_is_given_last_and_as_what_it_is(
    tmp_path: Path, function: str, how: str, error: str
) -> None:
    assert errors_in(program(tmp_path, function, how), tmp_path) == [error]


MODEL = "class M:\n    def __call__(self, x, c: {}): ...\n"


def test_a_model_asks_by_the_last_parameter_of_its_call(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(IMPORTS + MODEL.format("list[Asked]"))
    source = f'model f = python "f.py:M" (x: f32) -> (y: f32)\n{CALL}'
    assert graph_of(source, tmp_path, need_models=True).models[0].told
    cached = f"{source}schedule p {{ f {{ cache = 1MiB }} }}\n"
    found = check(Source("p.pipe", cached, tmp_path / "p.pipe"))
    assert [one.message for one in found] == [
        "`cache` has no effect on `f`: it asks for the request that it serves"
    ]
    (tmp_path / "f.py").write_text(IMPORTS + MODEL.format("Asked"))
    assert errors_in(source, tmp_path, need_models=True) == [
        "`M` gets a list of requests, one a row, and `c` is declared as another thing"
    ]
    alone = source.replace("(y: f32)\n", "(y: f32) batch none\n")
    assert graph_of(alone, tmp_path, need_models=True).models[0].told


def test_a_plan_says_it(tmp_path: Path) -> None:
    source = program(tmp_path, "def f(x, c: Asked): ...")
    plan = compile_source(Source("p.pipe", source, tmp_path / "p.pipe"))
    (segment,) = read(to_bytes(plan)).segments
    assert isinstance(segment, PythonSegment)
    assert segment.told


def test_a_plan_that_keeps_what_is_of_one_request_is_refused(tmp_path: Path) -> None:
    source = program(tmp_path, "def f(x, c: Asked): ...")
    plan = compile_source(Source("p.pipe", source, tmp_path / "p.pipe"))
    (segment,) = plan.segments
    assert isinstance(segment, PythonSegment)
    kept = replace(segment, service=Service(cache=1 << 20))
    with pytest.raises(PlanError, match="keeps results that are of one request"):
        read(to_bytes(replace(plan, segments=(kept,))))
