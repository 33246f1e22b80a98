"""Functions in C: what they do wrong fails their row and nothing else."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.runtime.load_error import LoadError
from tests.runtime.backends.makers import HEADER, NATIVE, build

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

DOCS = Path(str(headrace.__file__)).resolve().parents[2] / "docs"
WRONG = """
fn wrong(x: i64[N]) -> (y: f32[3]) = native "m.so:wrong"

pipeline p(x: i64[N]) -> (y: f32[3]) {
    return y = wrong(x)
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("native") / "m.so"
    build(NATIVE, path)
    return path


def load(library: Path, text: str) -> headrace.App:
    path = library.with_name("p.pipe")
    path.write_text(text)
    return headrace.load(path)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (1, "`wrong` failed: it would not"),
        (2, "`wrong` failed: status 7"),
        (3, "`wrong` did not give `y`"),
        (4, "it gives output 9 of 1"),
        (5, "it gives `y` 2 axes, and y: f32[3] is declared"),
        (6, "it gives `y` sizes that are none"),
        (7, "it gives `y` the shape [1152921504606846976], and y: f32[3] is declared"),
        (8, "it gives `y` a shape twice"),
        (9, "it gives `y` sizes that are none"),
        (10, "it gives `y` -5 axes"),
        (11, "`wrong` failed: xxxx"),
        (12, "`wrong` failed: \ufffd\ufffd\ufffd"),
    ],
)
def test_what_a_function_does_wrong_is_told_and_the_next_call_works(
    what: int, message: str, library: Path
) -> None:
    with load(library, WRONG) as app:
        with pytest.raises(headrace.Fault) as caught:
            app.p(x=np.array([what]))
        assert message in caught.value.message
        assert (caught.value.code, caught.value.stage) == (headrace.Code.FAILED, "wrong")
        assert np.array_equal(app.p(x=np.array([0])).y, np.zeros(3, np.float32))


def test_memory_that_there_is_not_is_refused(library: Path) -> None:
    text = WRONG.replace("y: f32[3]", "y: f32[M]")
    with load(library, text) as app:
        with pytest.raises(headrace.Fault, match=r"Unable to allocate|too big|memory"):
            app.p(x=np.array([7]))
        assert np.array_equal(app.p(x=np.array([0])).y, np.zeros(3, np.float32))


def test_a_function_takes_one_item_and_a_batched_one_all_of_them(library: Path) -> None:
    for how, executions in (("", 4), (" batched", 1)):
        text = f"""
fn pair(a: f32[K], b: f32[K]) -> (total: f32[K], difference: f32[K]) = native "m.so:pair"{how}

pipeline p(a: f32[K], b: f32[K]) -> (total: f32[K], difference: f32[K]) batch 4 {{
    t, d = pair(a, b)
    return total = t, difference = d
}}
"""
        with load(library, text) as app:
            a = np.arange(8, dtype=np.float32).reshape(4, 2)
            total, difference = app.p(a=a, b=np.ones_like(a))
            assert np.array_equal(total, a + 1)
            assert np.array_equal(difference, a - 1)
            assert app.metrics[0].stage("pair").executions == executions


def test_a_view_of_another_array_is_read_by_its_strides(library: Path) -> None:
    text = """
fn same(x: f32[N, M]) -> (y: f32[N, M]) = native "m.so:same" pure

pipeline p(x: f32[N, M]) -> (y: f32[N, M]) {
    return y = same(x)
}
"""
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    with load(library, text) as app:
        for view in (x.T, x[::2, 1::3], x[:, ::-1], x[:0]):
            assert np.array_equal(app.p(x=view).y, view)


def test_the_function_in_the_documentation_does_what_it_says(tmp_path: Path) -> None:
    page = (DOCS / "backends.md").read_text("utf-8")
    compiled(tmp_path, page.split("```c fir.c\n")[1].split("```")[0])
    text = """
fn twice(x: f32[N]) -> (y: f32[N]) = native "m.so:twice"

pipeline p(x: f32[N]) -> (y: f32[N]) {
    return y = twice(x)
}
"""
    x = np.arange(8, dtype=np.float32)
    with load(tmp_path / "m.so", text) as app:
        assert np.array_equal(app.p(x=x[::2]).y, x[::2] * 2)


def compiled(folder: Path, source: str) -> Path:
    (folder / "m.c").write_text(source)
    build(folder / "m.c", folder / "m.so")
    return folder / "m.so"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('#include "headrace.h"\nHEADRACE_LIBRARY\n', "the library has no symbol `wrong`"),
        (
            '#include "headrace.h"\nHEADRACE_FUNCTION(wrong) { (void)call; return 0; }\n',
            "the library has no symbol `headrace_abi`",
        ),
        (
            '#include "headrace.h"\nHEADRACE_EXPORT unsigned headrace_abi(void) { return 9; }\n'
            "HEADRACE_FUNCTION(wrong) { (void)call; return 0; }\n",
            "is made for form 9 of headrace.h, and this is 1",
        ),
    ],
)
def test_a_library_that_does_not_fit_is_refused_when_loaded(
    source: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(LoadError) as caught:
        load(compiled(tmp_path, source), WRONG)
    assert message in caught.value.message
    assert caught.value.code == "HR505"


def test_text_is_not_given_to_c(library: Path) -> None:
    text = WRONG.replace("x: i64[N]", "x: string[N]")
    with pytest.raises(LoadError, match="cannot be given text") as caught:
        load(library, text)
    assert caught.value.code == "HR510"


def test_the_header_is_of_the_form_that_is_spoken_and_is_cpp_too(tmp_path: Path) -> None:
    from headrace.runtime.backends.native import ABI

    assert f"#define HEADRACE_ABI {ABI}\n" in (HEADER / "headrace.h").read_text()
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    source = tmp_path / "m.cpp"
    source.write_text(
        '#include "headrace.h"\nHEADRACE_LIBRARY\n'
        "HEADRACE_FUNCTION(f) { return headrace_output(call, 0, 0, nullptr) == nullptr; }\n"
    )
    target = tmp_path / "m.so"
    command = ["g++", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{HEADER}"]
    subprocess.run([*command, str(source), "-o", str(target)], check=True)
    assert ctypes.CDLL(str(target)).headrace_abi() == ABI
