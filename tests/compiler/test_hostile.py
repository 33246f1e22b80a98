"""Whatever a source holds, diagnostics come out of it, and never a traceback."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compiler.hostile import ODD, mutilated, sound, survive, words

CI = settings(deadline=None, suppress_health_check=(HealthCheck.too_slow,))
HEAD = "pipeline p(x: f32[H, 4], n: i64, c: bool) -> (y: f32[H, 4]) {\n"
TAIL = "\n    return y = x\n}\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\ufeff",
        "\0",
        "\ufeff" + HEAD + TAIL,
        (HEAD + TAIL).replace("\n", "\r\n"),
        (HEAD + TAIL).replace("\n", "\r"),
        (HEAD + TAIL).replace("x", "х"),  # a Cyrillic letter
        (HEAD + TAIL).replace("(", "（"),
        HEAD + "a = " + "9" * 10_000 + TAIL,
        HEAD + "a = 1e99999" + TAIL,
        HEAD + "a = 0x" + "f" * 10_000 + TAIL,
        HEAD + "a = x + " + "9" * 400 + TAIL,
        HEAD + "a = x[" + "9" * 30 + "]" + TAIL,
        HEAD + "a = x[0:1:0]" + TAIL,
        HEAD.replace("H, 4], n", "H / 0, H % 0], n") + TAIL,
        HEAD.replace("4]", f"{10**40}]") + TAIL,
        HEAD + 'a = "' + "\\u0000" * 1000 + '"' + TAIL,
        HEAD + 'a = "' + "é" * 100_000 + TAIL,
        "const a: f32 = " + "[" * 64 + "1" + "]" * 64,
        "const a: f32 = " + "[" * 5_000,
        "{" * 20_000,
        "(" * 5_000 + "{" * 5_000 + ")" * 5_000,
        "{" * 5_000 + "()" * 5_000,
        HEAD + "a = " + "[" * 60 + "x" + "]" * 60 + TAIL,
        HEAD + "a = " + "-" * 900 + "n" + TAIL,
        HEAD + "a = n" + " + n" * 900 + TAIL,
        HEAD + "a = n" + " + n" * 4_000 + TAIL,
        HEAD + "a = " + "if c { " * 1_000 + "n" + " } else { n }" * 1_000 + TAIL,
        HEAD + "a = if c { n }" + " else if c { n }" * 900 + " else { n }" + TAIL,
        HEAD.replace("f32[H, 4]", "list<" * 60 + "f32" + ">" * 60) + TAIL,
        HEAD.replace("4]", "4" + " + H" * 900 + "]") + TAIL,
        f'model m = onnx "{"a" * 5_000}.onnx" (x: f32[4]) -> (y: f32[4])\n' + HEAD + TAIL,
        f'model m = onnx "pkg:onnx/{"a" * 5_000}" (x: f32[4]) -> (y: f32[4])\n' + HEAD + TAIL,
        'model m = onnx "\\u0000" (x: f32[4]) -> (y: f32[4])\n' + HEAD + TAIL,
        'use "\\u0000.pipe"\n' + HEAD + TAIL,
        f'use "{"a" * 5_000}.pipe"\n' + HEAD + TAIL,
        'use "."\n' + HEAD + TAIL,
        HEAD + "#" * 100_000 + TAIL,
        HEAD + "a = n\n" * 1_000 + TAIL,
    ],
    ids=lambda text: repr(text[:40]),
)
def test_a_hostile_source_gives_diagnostics(text: str) -> None:
    survive(text)


@pytest.mark.slow
def test_what_all_hostile_sources_come_from_is_mostly_sound() -> None:
    assert sum(not survive(text) for text in sound()) > len(sound()) / 4


@settings(CI, derandomize=True)
@given(st.integers(0, 2**32))
def test_a_mutilated_source_gives_diagnostics(seed: int) -> None:
    survive(mutilated(Random(seed)))


@pytest.mark.slow
@settings(CI, max_examples=1_500, derandomize=False)
@given(st.integers(0, 2**64))
def test_many_mutilated_sources_do(seed: int) -> None:
    survive(mutilated(Random(seed)))


@pytest.mark.slow
@settings(CI, max_examples=750, derandomize=False)
@given(st.lists(st.sampled_from((*words(), *ODD, "\n", "\n", " ", " ")), max_size=40))
def test_words_in_any_order_do(parts: list[str]) -> None:
    survive(HEAD + " ".join(parts) + TAIL)


@pytest.mark.slow
@settings(CI, max_examples=750, derandomize=False)
@given(st.text(max_size=60), st.integers(0, 2**32))
def test_any_characters_do(text: str, seed: int) -> None:
    source = mutilated(Random(seed))
    at = Random(seed).randrange(len(source) + 1)
    survive(source[:at] + text + source[at:])


@pytest.mark.slow
@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed")
def test_fuzzing_guided_by_coverage_finds_nothing(tmp_path: Path) -> None:
    script = Path(__file__).with_name("fuzz_sources.py")
    folder = tmp_path / "corpus"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, str(script), str(folder), "-max_total_time=10", "-print_final_stats=1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
