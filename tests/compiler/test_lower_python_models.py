"""Models in Python: classes are looked at and not run."""

from pathlib import Path

import pytest

from tests.compiler.sources import errors_in, found_in, graph_of

CLASSES = """
raise SystemExit("this file was run")

class Good:
    def __init__(self, device, *, size=3): ...
    def __call__(self, x, y=None): ...

class Inherits(Good): ...

class Wants:
    def __init__(self, path, *, mode): ...
    def __call__(self, x): ...

class Silent: ...

def function(x): ...
"""


def program(location: str, rest: str = "(x: f32[N]) -> (y: f32)") -> str:
    return f"""
model m = python "{location}" {rest}
pipeline p(x: f32[4]) -> (y: f32) {{
    return y = m(x)
}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.py").write_text(CLASSES)
    return tmp_path


@pytest.mark.parametrize("name", ["Good", "Inherits"])
def test_a_class_is_packed_and_batches(folder: Path, name: str) -> None:
    graph = graph_of(program(f"m.py:{name}"), folder, need_models=True)
    (model,) = graph.models
    assert (model.backend, model.input_axes, model.output_axes) == ("python", (0,), (0,))
    assert model.content is not None
    assert model.content.content == CLASSES.encode()


def test_a_class_that_takes_one_item_does_not_batch(folder: Path) -> None:
    graph = graph_of(program("m.py:Good", "(x: f32[N]) -> (y: f32) batch none"), folder)
    assert graph.models[0].batches is False


def test_a_check_does_without_the_file() -> None:
    assert errors_in(program("nothing.py:Model")) == []
    assert errors_in(program("nothing.py:Model"), need_models=True) == [
        "there is no file `nothing.py`"
    ]


@pytest.mark.parametrize(
    ("location", "rest", "code", "said"),
    [
        ("m.py:Wants", "(x: f32[N]) -> (y: f32)", "HR325", "its constructor wants `path`, `mode`"),
        ("m.py:Silent", "(x: f32[N]) -> (y: f32)", "HR325", "has no `__call__`"),
        ("m.py:function", "(x: f32[N]) -> (y: f32)", "HR325", "is a function, and a model is a"),
        ("m.py:Nothing", "(x: f32[N]) -> (y: f32)", "HR309", "has no class `Nothing`"),
        ("m.py", "(x: f32[N]) -> (y: f32)", "HR308", "does not name a class"),
        ("m.py:Good", "", "HR324", "a class does not tell"),
        ("m.py:Good", "(x: f32[N]) -> (y: f32) batch axis { x = 0 }", "HR324", "no axis"),
        ("m.py:Good", "(x: f32[N], y: f32 = 1, z: f32 = 1) -> (y2: f32)", "HR322", "1 to 2 arg"),
    ],
)
def test_what_is_no_model_is_refused(
    folder: Path, location: str, rest: str, code: str, said: str
) -> None:
    source = program(location, rest)
    assert [one.split()[0] for one in found_in(source, folder)] == [code]
    assert said in errors_in(source, folder)[0]
