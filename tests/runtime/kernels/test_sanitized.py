"""No kernel reads or writes beside its arrays, or leaves its arithmetic to the compiler."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.runtime.kernels.host import find_compiler

ROOT = Path(__file__).parents[3]


def sanitized(what: str) -> subprocess.CompletedProcess[str]:
    compiler = find_compiler()
    libraries: list[str] = []
    for name in ("libasan.so", "libubsan.so"):
        asked = [compiler, f"-print-file-name={name}"]
        found = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
        if not Path(found).is_absolute():
            pytest.skip(f"{compiler} comes without {name}")
        libraries.append(found)
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
    }
    command = [sys.executable, "-m", "tests.runtime.kernels.sanitized", what]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=ROOT, env=environment
    )


@pytest.mark.slow
def test_kernels_of_all_ops_are_sound() -> None:
    done = sanitized("sound")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "said"),
    [("overflow", "signed integer overflow"), ("beyond", "heap-buffer-overflow")],
)
def test_a_planted_fault_is_found(what: str, said: str) -> None:
    done = sanitized(what)
    assert done.returncode != 0
    assert said in done.stderr
