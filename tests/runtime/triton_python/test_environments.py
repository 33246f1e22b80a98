"""Models in interpreters of their own, and what they complete of their configuration."""

import sys
import tarfile
from pathlib import Path

import pytest

from headrace.compiler.model_kinds import packed_version, split_version
from headrace.runtime.load_error import LoadError
from headrace.runtime.model_folder import unpacked
from headrace.runtime.triton_python.complete import completed
from headrace.runtime.triton_python.environment import interpreter

MODEL = """
import os
import beside
import triton_python_backend_utils as pb

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(beside.ROWS)
        config.add_input({"name": os.environ["MARK"], "data_type": "TYPE_FP32", "dims": [2]})
        return config
"""


def folder(place: Path, model: str = MODEL) -> Path:
    version = place / "m" / "2"
    version.mkdir(parents=True)
    (version / "model.py").write_text(model)
    (version / "beside.py").write_text("ROWS = 4")
    return version / "model.py"


def environment(place: Path) -> Path:
    """A folder whose interpreter is this one, under another name."""
    script = place / "bin" / "python3"
    script.parent.mkdir(parents=True)
    script.write_text(f'#!/bin/sh\nMARK=x exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return place


@pytest.mark.slow
def test_a_model_completes_its_configuration_in_an_environment_of_its_own(tmp_path: Path) -> None:
    file = folder(tmp_path)
    with tarfile.open(file.parent.parent / "env.tar.gz", "w:gz") as archive:
        archive.add(environment(tmp_path / "env"), ".")
    path = {"string_value": "$$TRITON_MODEL_DIRECTORY/env.tar.gz"}
    found = completed(file, {"name": "m", "parameters": {"EXECUTION_ENV_PATH": path}})
    assert found["max_batch_size"] == 4
    assert found["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [2]}]


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    file = folder(tmp_path, "import nothing_of_the_kind")
    with pytest.raises(LoadError, match="No module named 'nothing_of_the_kind'"):
        completed(file, {"name": "m"})


def test_an_environment_without_an_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no interpreter"):
        interpreter("$$TRITON_MODEL_DIRECTORY", tmp_path, tmp_path)
    (tmp_path / "junk.tar.gz").write_text("junk")
    with pytest.raises(LoadError, match="there is no execution environment"):
        interpreter("$$TRITON_MODEL_DIRECTORY/env.tar.gz", tmp_path, tmp_path)
    with pytest.raises(LoadError, match="cannot be unpacked"):
        interpreter(str(tmp_path / "junk.tar.gz"), tmp_path, tmp_path / "to")


def test_a_plan_has_the_version_and_what_is_beside_it_and_no_other_version(tmp_path: Path) -> None:
    file = folder(tmp_path)
    around = file.parent.parent
    for name in ("config.pbtxt", "1/model.py", "data/words.txt", "2/__pycache__/x.pyc"):
        (around / name).parent.mkdir(exist_ok=True)
        (around / name).write_text("x")
    with unpacked(packed_version(file)) as place:
        found = {one.relative_to(place).as_posix() for one in place.rglob("*") if one.is_file()}
    assert found == {"2/model.py", "2/beside.py", "config.pbtxt", "data/words.txt"}
    alone = tmp_path / "alone.py"
    alone.write_text("x")
    with unpacked(packed_version(alone)) as place:
        assert [one.as_posix() for one in place.rglob("*.py")] == [f"{place}/1/alone.py"]


def test_the_place_of_a_model_names_its_file_and_part() -> None:
    assert split_version("m/3/model.py") == ("m/3/model.py", "3/model.py")
    assert split_version("m/3/model.py:next") == ("m/3/model.py", "3/model.py:next")
    assert split_version("model.py") == ("model.py", "1/model.py")
    assert split_version("m/3/model.py:other") is None
    assert split_version("m/3") is None
