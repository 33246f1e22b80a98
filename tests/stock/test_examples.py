"""The examples of tritonclient, where they are: see `examples.py`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.runtime.server import Server
from tests.stock.examples import ALL, EIGHT, EXAMPLES, NOT_RUN, SEVEN, Example, run, serving
from tests.stock.examples import write_pictures as write

NAMED = os.environ.get("HEADRACE_TRITON_EXAMPLES")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        NAMED is None, reason="HEADRACE_TRITON_EXAMPLES names no folder of examples"
    ),
]


@pytest.fixture(scope="module")
def folder() -> Path:
    return Path(NAMED or "")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(ALL) as server:
        yield server


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pictures")
    write(made)
    return made


def test_each_example_is_run_or_is_known_not_to_be(folder: Path) -> None:
    assert {path.name for path in folder.glob("*.py")} == {
        *(one.script for one in EXAMPLES),
        *NOT_RUN,
    }


@pytest.mark.parametrize("example", [one for one in EXAMPLES if one.models == ALL], ids=str)
def test_an_example_passes(folder: Path, server: Server, pictures: Path, example: Example) -> None:
    assert run(example, folder, server, pictures) == ""


@pytest.mark.parametrize("example", [one for one in EXAMPLES if one.models != ALL], ids=str)
def test_an_example_of_control_passes(folder: Path, pictures: Path, example: Example) -> None:
    assert example.models in (SEVEN, EIGHT)
    with serving(example.models) as server:
        assert run(example, folder, server, pictures) == ""
