"""Small mistakes put into a copy of the packages, to see that some test catches each.

There are two copies, which take turns; the tests that a mutation names run against the copy, and
must fail. That they pass as long as nothing is wrong is tried first.
"""

import compileall
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import SimpleQueue

ROOT = Path(__file__).parents[1]
PACKAGES = ("dsl", "stdlib", "compiler", "runtime")
COPIED = (*PACKAGES, "src", "tests")
PASSED, FAILED = 0, 1  # as pytest exits


@dataclass(frozen=True)
class Mutation:
    """`old` becomes `new` in a file, once; `tests` are a test file and words of test names."""

    mistake: str
    file: str
    old: str
    new: str
    tests: str
    words: str


def outdated(mutations: Sequence[Mutation]) -> list[str]:
    """Return the mistakes whose places have changed, so that they are to be put in anew."""
    found = [(one, (ROOT / one.file).read_text("utf-8").count(one.old)) for one in mutations]
    return [f"{one.file}: {one.mistake}" for one, times in found if times != 1]


def survivors(mutations: Sequence[Mutation], folder: Path) -> list[str]:
    """Return the mistakes that no test catches, and what is wrong before any is made."""
    copies = _copies(folder)
    with ThreadPoolExecutor(2) as workers:
        files = sorted({one.tests for one in mutations})
        sound = workers.map(partial(_complaint, copies, mutations), files)
        found = list(workers.map(partial(_is_caught, copies), mutations))
    uncaught = [one.mistake for one, caught in zip(mutations, found, strict=True) if not caught]
    return [*filter(None, sound), *uncaught]


def _copies(folder: Path) -> SimpleQueue[Path]:
    """Make two copies of all that tests need."""
    made: SimpleQueue[Path] = SimpleQueue()
    without = shutil.ignore_patterns("__pycache__", "*.pyc")
    for number in range(2):
        copy = folder / f"copy{number}"
        for name in COPIED:
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=without)
        shutil.copy(ROOT / "pyproject.toml", copy)
        for package in PACKAGES:  # held to its source, so that an edit is seen
            compileall.compile_dir(
                copy / package, quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH
            )
        made.put(copy)
    return made


def _complaint(copies: SimpleQueue[Path], mutations: Sequence[Mutation], tests: str) -> str:
    """Run all tests of a file that mutations name; return what they print when one fails."""
    words = sorted({one.words for one in mutations if one.tests == tests})
    copy = copies.get()
    try:
        ran = _run_tests(copy, tests, "" if "" in words else " or ".join(words))
    finally:
        copies.put(copy)
    return "" if ran.returncode == PASSED else ran.stdout


def _is_caught(copies: SimpleQueue[Path], mutation: Mutation) -> bool:
    """Tell whether a test fails because of a mutation."""
    copy = copies.get()
    try:
        file = copy / mutation.file
        sound = file.read_text("utf-8")
        file.write_text(sound.replace(mutation.old, mutation.new), "utf-8")
        try:
            ran = _run_tests(copy, mutation.tests, mutation.words)
        finally:
            file.write_text(sound, "utf-8")
    finally:
        copies.put(copy)
    assert ran.returncode in (PASSED, FAILED), f"{mutation.mistake}: {ran.stdout}{ran.stderr}"
    return ran.returncode == FAILED


def _run_tests(copy: Path, tests: str, words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a copy, on the copy's own package. What it compiles would outlive an edit, so
    it is not kept, and what a mistake lets hang is ended."""
    chosen = ["-k", words] if words else []
    quick = ["-xq", "-m", "not slow"]
    options = [*quick, "-p", "no:cacheprovider", "-o", "faulthandler_timeout=60"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, tests, *chosen],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
