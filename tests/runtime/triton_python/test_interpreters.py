"""What the folder of a worker may need of an interpreter that is not headrace's own."""

import ast
import sys
from pathlib import Path

import pytest

from headrace.runtime.triton_python.worker import triton_python_backend_utils as pb

FILES = sorted(Path(str(pb.__file__)).parent.glob("*.py"))
OLDEST = (3, 8)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_worker_needs_an_old_python_and_numpy_alone(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=OLDEST)
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(str(node.module).partition(".")[0])
    assert names - sys.stdlib_module_names <= {"numpy"}


def test_every_file_of_a_worker_is_looked_at() -> None:
    assert {"serve", "engine", "link", "batches"} <= {file.stem for file in FILES}
