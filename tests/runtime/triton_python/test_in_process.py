"""Models in the engine's own process: what a process of its own gives a model, and this has to."""

import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.runtime.engine import Engine
from headrace.runtime.engine_config import EngineConfig
from headrace.runtime.load_error import LoadError
from headrace.runtime.request import Fault, Request
from tests.triton.writing import put

PROGRAM = """
model {name} = triton_python "{name}/1/model.py" (X: f32[2]) -> (Y: f32[2])

pipeline run_{name}(X: f32[2]) -> (Y: f32[2]) batch 8 {{ return Y = {name}(X) }}

schedule run_{name} {{ {name} {{ isolate = off, batch {{ max = 8 }}, instances = {count} }} }}
"""
HEAD = """
import triton_python_backend_utils as pb


def y(request, value):
    return pb.InferenceResponse([pb.Tensor("Y", value)])


def x(request):
    return request.inputs()[0].as_numpy()
"""
NO_FILES: Mapping[str, str] = MappingProxyType({})
ONE = np.ones((1, 2), np.float32)


def written(
    folder: Path, name: str, model: str, files: Mapping[str, str] = NO_FILES, count: int = 1
) -> None:
    put(folder / name / "1/model.py", HEAD + model)
    for path, text in files.items():
        put(folder / name / path, text)
    with (folder / "all.pipe").open("a") as pipe:
        pipe.write(PROGRAM.format(name=name, count=count))


def asked(app: Any, name: str, value: Any = ONE) -> Any:
    return getattr(app, f"run_{name}")(X=value).Y


IMPORTS = """
import importlib
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "vendored"))

import kept
import packed.deep
from . import kept as the_same
from packed import deep
from packed.deep import base


class TritonPythonModel:
    def execute(self, requests):
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(self.answers, requests).result()

    def answers(self, requests):
        import vendor
        from beside import number
        import triton_python_backend_utils as again

        assert again is pb and deep is packed.deep and the_same.NAME == kept.NAME
        assert importlib.import_module("kept") is kept and __import__("kept") is kept
        assert importlib.import_module("packed.deep") is deep and importlib.util
        kept.COUNT += 1
        found = 1000 * base + 100 * number + 10 * vendor.plus + kept.COUNT
        return [y(one, x(one) * 0 + found) for one in requests]
"""


def test_models_and_instances_have_what_lies_beside_them_for_their_own(tmp_path: Path) -> None:
    before: tuple[list[str], list[Any], set[str]]
    before = list(sys.path), list(sys.meta_path), set(sys.modules)
    for name, number in (("a", 1), ("b", 2)):
        written(
            tmp_path,
            name,
            IMPORTS,
            {
                "1/kept.py": f"NAME, COUNT = '{name}', 0",
                "1/packed/__init__.py": "",
                "1/packed/deep.py": "from .lower import base",
                "1/packed/lower.py": "import beside, spread.thin\nbase = spread.thin.number",
                "1/vendored/vendor.py": f"plus = {number}",
                "beside.py": f"number = {number}",
                "spread/thin.py": f"number = {number}",
            },
            count=2,
        )
    with headrace.load(tmp_path / "all.pipe", workers=2) as app:
        for name, number in (("a", 1), ("b", 2)):
            counts = [asked(app, name)[0, 0] - 1110 * number for _ in range(3)]
            assert counts == [1, 2, 3]  # of one instance, which is free each time
        assert "kept" not in sys.modules
        assert "vendor" not in sys.modules
    assert (sys.path, sys.meta_path) == before[:2]
    assert not [one for one in sys.modules.keys() - before[2] if "headrace_model" in one]


LIBRARY = """
import importlib


def of(name):
    return importlib.import_module(name)
"""
BY_LIBRARY = """
import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import shared_by_models_of_a_test


class TritonPythonModel:
    def execute(self, requests):
        shared_by_models_of_a_test.of(WHAT)
        return [y(one, x(one)) for one in requests]
"""


@pytest.mark.parametrize("what", ["kept", "triton_python_backend_utils"])
def test_what_is_shared_is_not_given_a_module_of_one_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    put(tmp_path / "installed/shared_by_models_of_a_test.py", LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    written(tmp_path, "a", BY_LIBRARY.replace("WHAT", repr(what)), {"1/kept.py": "NUMBER = 1"})
    with (
        headrace.load(tmp_path / "all.pipe", workers=2) as app,
        pytest.raises(Fault, match=f"`{what}` is of model `a`.*leave the model its process"),
    ):
        asked(app, "a")


WRITES = """
class TritonPythonModel:
    def initialize(self, args):
        import numpy as np

        self.buffer = np.zeros((1, 2), np.float32)

    def execute(self, requests):
        for one in requests:
            value = x(one)
            value += 1
            self.buffer[:] = value
        return [y(one, self.buffer) for one in requests]
"""


def test_a_model_writes_to_what_it_is_given_and_to_what_it_gave(tmp_path: Path) -> None:
    written(tmp_path, "a", WRITES)
    given = np.zeros((1, 2), np.float32)
    with headrace.load(tmp_path / "all.pipe", workers=2) as app:
        first = asked(app, "a", given)
        second = asked(app, "a", given + 10)
    assert (given.tolist(), first.tolist(), second.tolist()) == ([[0, 0]], [[1, 1]], [[11, 11]])


DIVIDES = """
import numpy as np


class TritonPythonModel:
    def initialize(self, args):
        np.seterr(all=HOW)

    def execute(self, requests):
        return [y(one, x(one) / np.float32(0)) for one in requests]
"""


def test_what_numpy_does_of_a_division_by_zero_is_each_models_own(tmp_path: Path) -> None:
    written(tmp_path, "strict", DIVIDES.replace("HOW", "'raise'"))
    written(tmp_path, "easy", DIVIDES.replace("HOW", "'ignore'"))
    with headrace.load(tmp_path / "all.pipe", workers=1) as app:
        for _ in range(2):
            with pytest.raises(Fault, match="FloatingPointError"):
                asked(app, "strict")
            assert asked(app, "easy").tolist() == [[np.inf, np.inf]]


def test_an_environment_of_its_own_needs_a_process(tmp_path: Path) -> None:
    written(tmp_path, "a", WRITES)
    said = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/opt/env" } }'
    put(tmp_path / "a/config.pbtxt", f'name: "a" backend: "python" max_batch_size: 8 {said}')
    with pytest.raises(LoadError, match="its environment `/opt/env` needs a process"):
        headrace.load(tmp_path / "all.pipe")


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of_this_"),
        ("class Model: pass", "Python model has no class `TritonPythonModel`"),
        ("class TritonPythonModel: pass", "does not implement `execute` method"),
        ("import sys\nsys.exit('no')", "SystemExit: no"),
    ],
)
def test_one_that_cannot_be_loaded_says_why_and_leaves_nothing(
    tmp_path: Path, model: str, why: str
) -> None:
    before = list(sys.meta_path)
    written(tmp_path, "a", model)
    with pytest.raises(LoadError, match=why):
        headrace.load(tmp_path / "all.pipe")
    assert sys.meta_path == before


BEHIND = """
import asyncio
import threading


class TritonPythonModel:
    async def execute(self, requests):
        await asyncio.sleep(0)
        self.left = asyncio.ensure_future(asyncio.sleep(1e6))
        self.thread = threading.current_thread()
        return [y(one, x(one) + 1) for one in requests]

    def finalize(self):
        assert self.left.cancelled() and not self.thread.is_alive()
        with open("PLACE", "w") as file:
            file.write("ended")
"""


def test_coroutines_run_in_a_thread_that_ends_with_the_model(tmp_path: Path) -> None:
    written(tmp_path, "a", BEHIND.replace("PLACE", str(tmp_path / "said")))
    threads = threading.active_count()
    with headrace.load(tmp_path / "all.pipe", workers=2) as app:
        assert asked(app, "a").tolist() == [[2, 2]]
    assert (tmp_path / "said").read_text() == "ended"
    assert threading.active_count() == threads


ASKS_ITSELF = """
class TritonPythonModel:
    def execute(self, requests):
        (request,) = requests
        response = pb.InferenceRequest(
            model_name="run_a", requested_output_names=["Y"], inputs=[pb.Tensor("X", x(request))]
        ).exec()
        return [response]
"""


@pytest.mark.slow  # a model has five seconds to end what it is at
def test_a_model_that_waits_for_itself_ends_with_the_engine(tmp_path: Path) -> None:
    written(tmp_path, "a", ASKS_ITSELF)
    engine = Engine(headrace.compile(tmp_path / "all.pipe").plan, EngineConfig(workers=2))
    waiting = engine.submit(Request("run_a", {"X": ONE}))
    engine.close()
    with pytest.raises(Fault):
        waiting.result(0)
