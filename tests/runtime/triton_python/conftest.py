"""One program whose models are Python files of Triton's backend."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.runtime.engine import Engine
from headrace.runtime.engine_config import EngineConfig

HERE = Path(__file__).parent

PROGRAM = """
model outer_model = triton_python "outer/1/model.py" (DO: string[1]) -> (SAID: string[1])
model inner_model = triton_python "inner/1/model.py" (DO: string[1]) -> (SAID: string[1])
model begin = triton_python "numbers/1/model.py:open" (COUNT: i32[1]) -> (all: i64) batch none
model more = triton_python "numbers/1/model.py:next" (all: i64) -> (go: bool, N: i32[1]) batch none

pipeline outer(DO: string[1]) -> (SAID: string[1]) batch 8 {
    return SAID = outer_model(DO)
}

pipeline inner(DO: string[1]) -> (SAID: string[1]) batch 8 {
    return SAID = inner_model(DO)
}

pipeline numbers(COUNT: i32[1]) -> stream (N: i32[1]) {
    all = begin(COUNT)
    loop (go: bool = true) max 9223372036854775807 {
        got, n = more(all)
        emit N = n when got
        next go = got
        stop when not got
    }
}

schedule outer {
    outer_model { batch { max = 8, wait = 0ms }, instances = 2, isolate = ON }
}

schedule inner {
    inner_model { batch { max = 8, wait = 0ms }, isolate = ON }
}

schedule numbers {
    begin { isolate = ON }
}
"""


@pytest.fixture(scope="module", params=["on", "off"], ids=["processes", "in process"])
def isolate(request: pytest.FixtureRequest) -> str:
    """Whether models have processes of their own."""
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, isolate: str) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name, source in (("outer", "everything"), ("inner", "everything"), ("numbers", "counting")):
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "1" / "model.py").write_text((HERE / f"{source}.py").read_text())
        (folder / name / "config.pbtxt").write_text(
            f'name: "{name}" backend: "python" max_batch_size: 8\n'
            f'parameters {{ key: "folder" value {{ string_value: "{folder}" }} }}\n'
        )
    (folder / "all.pipe").write_text(PROGRAM.replace("ON", isolate))
    return folder


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    os.environ["PIPES"] = str(folder)
    engine = Engine(headrace.compile(folder / "all.pipe").plan, EngineConfig(workers=2))
    yield engine
    engine.drain()
    engine.close()
    del os.environ["PIPES"]
