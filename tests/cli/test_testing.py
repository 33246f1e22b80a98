"""Test blocks: stubs, given values, expectations, and what is shown when one does not hold."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.dsl.diagnostic import CompileError, Diagnostic
from headrace.dsl.read import read_source
from headrace.dsl.render import render
from headrace.dsl.source import Source
from headrace.testing import run_tests

PROGRAM = """\
model score = onnx "missing.onnx" (x: f32[4]) -> (p: f32[2], sure: bool)
fn double(x: f32[N]) -> (y: f32[N]) = python "stages.py:double"

pipeline judge(x: f32[4], names: string[N]) -> (p: f32[2], kept: string[M], n: i64) {
    p, sure = score(double(x))
    kept = for name in names { yield name when p[0] > 0.5 }
    return p = p, kept = kept, n = len(kept)
}
"""
STAGES = "def double(x):\n    return x * 2\n"


Failures = Callable[..., tuple[Diagnostic, ...]]


@pytest.fixture
def failures(tmp_path: Path) -> Failures:
    """Return the failures of one test of PROGRAM."""

    def run(steps: str, program: str = PROGRAM) -> tuple[Diagnostic, ...]:
        (tmp_path / "stages.py").write_text(STAGES)
        (tmp_path / "names.json").write_text('["a", "b"]')
        path = tmp_path / "judge.pipe"
        path.write_text(f'{program}\ntest "one" for judge {{\n{steps}\n}}\n')
        (result,) = run_tests(read_source(path, "judge.pipe"))
        return result.failures

    return run


STUB = "stub score = (p = [0.75, 0.25], sure = true)\n"
GIVEN = 'given x = [1, 2, 3, 4]\ngiven names = ["a", "b"]\n'


@pytest.mark.parametrize(
    "expectation",
    [
        "p == [0.75, 0.25]",
        'kept == ["a", "b"]',
        'kept[0] == "a" and n == 2',
        "p[1:] == [0.25]",
        "p > 0.2",
        "math.abs(p[0] - 0.7501) < 0.001",
        "len(kept) == 2",
        "x == [1, 2, 3, 4]",
        "full([2], 0.75, f64) >= p",
        "cast(p, i32) == [0, 0]",
        "calls(score) == 1",
        "calls(double) == 1",
        "not (n == 3)",
        'kept != ["a"]',
        'names == json("names.json")',
        "-n == -2",
    ],
)
def test_what_holds_passes(failures: Failures, expectation: str) -> None:
    assert failures(f"{STUB}{GIVEN}expect {expectation}") == ()


def test_a_failed_expectation_shows_what_was_found(failures: Failures) -> None:
    found = failures(f'{STUB}{GIVEN}expect kept == ["a", "c"]\nexpect calls(score) == 3')
    assert render(found) == (
        "error[HR511]: this does not hold\n"
        " --> judge.pipe:14:8\n"
        "   |\n"
        '14 | expect kept == ["a", "c"]\n'
        '   |        ^^^^^^^^^^^^^^^^^^ `kept` is ["a", "b"]\n'
        '   = note: 1 of 2 differ, first [1]: "b", expected "c"\n'
        "\n"
        "error[HR511]: this does not hold\n"
        " --> judge.pipe:15:8\n"
        "   |\n"
        "15 | expect calls(score) == 3\n"
        "   |        ^^^^^^^^^^^^^^^^^ `calls(score)` is 1\n"
    )


def test_arrays_of_different_shapes_are_not_equal(failures: Failures) -> None:
    (found,) = failures(f'{STUB}{GIVEN}expect kept == ["a"]')
    assert found.notes == ("shapes differ: [2] and [1]",)


def test_a_stub_that_does_not_fit_the_signature_is_told(failures: Failures) -> None:
    (found,) = failures(f"stub score = (p = [0.5, 0.25, 0.25], sure = true)\n{GIVEN}expect n == 0")
    assert found.code == "HR512"
    assert "`score`" in found.notes[0]


def test_a_stub_without_a_result_is_told(failures: Failures) -> None:
    (found,) = failures(f"stub score = (p = [0.5, 0.5])\n{GIVEN}expect n == 0")
    assert "gives no `sure`" in found.notes[0]


def test_a_model_that_is_not_stubbed_needs_its_file(failures: Failures) -> None:
    with pytest.raises(CompileError) as caught:
        failures(f"{GIVEN}expect n == 0")
    assert [one.code for one in caught.value.diagnostics] == ["HR301"]


def test_a_missing_input_fails_the_test(failures: Failures) -> None:
    (found,) = failures(f"{STUB}given x = [1, 2, 3, 4]\nexpect n == 0")
    assert found.code == "HR512"
    assert "`names` is missing" in found.notes[0]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            "expect kept[5] == 3",
            "this has no value: index 5 is out of bounds",
        ),
        ("expect if n == 2 { true } else { false }", "a test cannot evaluate this"),
    ],
)
def test_what_has_no_value_is_told_where_it_stands(
    failures: Failures, steps: str, message: str
) -> None:
    (found,) = failures(f"{STUB}{GIVEN}{steps}")
    assert found.code == "HR513"
    assert found.message.startswith(message)


def test_a_given_file_that_is_not_there_is_told(failures: Failures) -> None:
    (found,) = failures(f'{STUB}given x = npy("absent.npy")\nexpect n == 0')
    assert found.code == "HR513"


def test_an_op_can_be_stubbed_and_is_counted(failures: Failures) -> None:
    steps = f"{STUB}stub len = (7)\n{GIVEN}expect n == 7\nexpect calls(len) == 1"
    assert failures(steps) == ()


def test_the_test_of_a_pipeline_with_state_is_a_sequence_of_requests() -> None:
    text = """
pipeline total(x: f32, scale: f32 = 1) -> (y: f32) per sequence {
    state kept: f32 = 0
    next kept = kept + x * scale
    return y = kept + x * scale
}

test "goes on" for total {
    given x = 1
    given scale = 2
    expect y == 2
    given x = 2
    given x = 3
    expect y == 12
}

test "begins anew" for total {
    given x = 5
    expect y == 4
}
"""
    results = run_tests(Source("total.pipe", text))
    assert [len(result.failures) for result in results] == [0, 1]


def test_the_model_of_another_pipeline_need_not_be_there(failures: Callable[..., object]) -> None:
    other = 'model big = onnx "big.onnx" (x: f32) -> (y: f32)\n'
    other += "pipeline asks(x: f32) -> (y: f32) { return y = big(x) }\n"
    steps = "stub score = (p = [1, 0], sure = true)\ngiven x = [1, 2, 3, 4]\ngiven names = []\n"
    assert failures(steps + "expect n == 0", PROGRAM + other) == ()
