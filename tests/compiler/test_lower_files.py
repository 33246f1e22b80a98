"""Files that a source uses: other sources, Python functions, constants."""

from pathlib import Path

import numpy as np
import pytest

from headrace.compiler.graph import Constant
from headrace.dsl.render import render
from tests.compiler.sources import errors_in, found_in, graph_of, lowered, results, stages

COMMON = """
use nn
type Point = f32[2]
const scale: f32 = 2.5
model score = onnx "score.onnx" (x: f32[3]) -> (p: f32[2])
fn odds(x: f32[3]) -> (p: f32[2]) { return p = nn.softmax(score(x)) }
pipeline rate(x: f32[3]) -> (p: f32[2]) { return p = odds(x * scale) }
"""


# ---- other sources


def test_items_of_another_file_are_reached_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "common.pipe").write_text(COMMON)
    graph = graph_of(
        'use "common.pipe" as common\n'
        "pipeline p(x: f32[3], at: common.Point) -> (p: f32[2], s: f32, at: common.Point) {\n"
        "  return p = common.rate(x) + common.odds(x), s = common.scale, at = at\n}",
        tmp_path,
    )
    assert [model.name for model in graph.models] == ["common.score"]
    assert stages(graph).count("common.score") == 2


def test_pipelines_of_another_file_give_no_graphs(tmp_path: Path) -> None:
    (tmp_path / "common.pipe").write_text(COMMON)
    result = lowered(
        'use "common.pipe" as c\npipeline p(x: f32[3]) -> (p: f32[2]) { return p = c.rate(x) }',
        tmp_path,
    )
    assert [graph.name for graph in result.graphs] == ["p"]


def test_mistakes_in_another_file_are_shown_there(tmp_path: Path) -> None:
    (tmp_path / "common.pipe").write_text(COMMON.replace("x * scale", "x * scales"))
    (found,) = lowered(
        'use "common.pipe" as c\npipeline p(x: f32[3]) -> (p: f32[2]) { return p = c.rate(x) }',
        tmp_path,
    ).diagnostics
    assert (found.code, str(found.primary.span)) == ("HR101", "common.pipe:7:63")


def test_syntax_errors_in_another_file_are_shown_there(tmp_path: Path) -> None:
    (tmp_path / "common.pipe").write_text("pipeline p( {\n")
    found = lowered('use "common.pipe" as c\n', tmp_path).diagnostics
    assert {one.primary.span.source.name for one in found} == {"common.pipe"}
    assert all(one.code.startswith("HR0") for one in found)


def test_paths_start_at_the_file_they_are_written_in(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "labels.txt").write_text("a\nb\n")
    (tmp_path / "parts" / "inner.pipe").write_text(
        'const labels: string[K] = lines("labels.txt")\n'
    )
    (tmp_path / "parts" / "outer.pipe").write_text(
        'use "inner.pipe" as inner\nconst first: string[2] = inner.labels\n'
    )
    graph = graph_of(
        'use "parts/outer.pipe" as outer\n'
        "pipeline p() -> (l: string[2]) { return l = outer.first }",
        tmp_path,
    )
    assert str(results(graph)[0]) == "string[2]"


def test_files_that_use_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pipe").write_text('use "b.pipe" as b\n')
    (tmp_path / "b.pipe").write_text('use "a.pipe" as a\n')
    found = lowered('use "a.pipe" as a\n', tmp_path).diagnostics
    assert [one.code for one in found if one.code != "HR108"] == ["HR112"]
    (tmp_path / "p.pipe").write_text('use "p.pipe" as me\n')
    assert "HR112 1:5" in found_in('use "p.pipe" as me\n', tmp_path)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    (tmp_path / "latin.pipe").write_bytes(b"# caf\xe9\n")
    found = lowered('use "commn.pipe" as a\nuse "latin.pipe" as b\n', tmp_path).diagnostics
    assert [one.code for one in found] == ["HR113", "HR113"]


# ---- Python functions

PYTHON = """
import json as reader
try:
    import fast
except ImportError:
    def fast(x): return x

LIMIT = 3

def one(x): ...
def two(x, y=1): ...
def many(*xs): ...
class Callable:
    def __call__(self, x): ...
made = Callable()
async def later(x): ...
raise RuntimeError("a check runs nothing")
"""


@pytest.mark.parametrize(
    ("location", "found"),
    [
        ("f.py:one", None),
        ("f.py:two", None),
        ("f.py:many", None),
        ("f.py:made", None),
        ("f.py:fast", None),
        ("f.py:on", "`f.py` has no function `on`"),
        ("f.py:later", "`later` is `async`, which stages are not"),
        ("g.py:one", "there is no file `g.py`"),
        ("f.py", "`f.py` does not name a function in a Python file"),
        ("f.txt:one", "`f.txt:one` does not name a function in a Python file"),
        ("bad.py:one", "`bad.py` is not Python in line 2: invalid syntax"),
        ("pkg:no_such_package/f.py:one", "the Python package `no_such_package` is not installed"),
        ("pkg:headrace/version.py:nothing_there", "`version.py` has no function `nothing_there`"),
    ],
)
def test_functions_are_looked_up_without_running_their_file(
    tmp_path: Path, location: str, found: str | None
) -> None:
    (tmp_path / "f.py").write_text(PYTHON)
    (tmp_path / "bad.py").write_text("def one(x):\n    return return\n")
    text = f'fn f(x: f32) -> (y: f32) = python "{location}"\n'
    assert errors_in(text, tmp_path) == ([] if found is None else [found])


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ("x: f32", []),
        ("x: f32, y: f32", []),
        ("", ["`two` takes 1 to 2 arguments, but 0 are declared"]),
        ("x: f32, y: f32, z: f32", ["`two` takes 1 to 2 arguments, but 3 are declared"]),
    ],
)
def test_a_function_takes_as_many_arguments_as_are_declared(
    tmp_path: Path, params: str, found: list[str]
) -> None:
    (tmp_path / "f.py").write_text(PYTHON)
    text = f'fn f({params}) -> (y: f32) = python "f.py:two"\n'
    assert errors_in(text, tmp_path) == found


# ---- constants


def literal_of(text: str, folder: Path) -> object:
    """Return the literal of the constant `c` of a source."""
    graph = graph_of(
        text
        + "\npipeline p() -> (c: TYPE) { return c = c }".replace(
            "TYPE", text.split(":", 1)[1].split("=")[0].strip().replace("[K]", "[_]")
        ),
        folder,
    )
    (node,) = graph.body.nodes
    assert isinstance(node.kind, Constant)
    return node.kind.literal


def test_lines_are_strings_without_their_ends(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes("\ufeffa\r\n b \n\nc\u2028d\n".encode())
    found = literal_of('const c: string[K] = lines("t.txt")', tmp_path)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == ["a", " b ", "", "c\u2028d"]


def test_arrays_are_loaded_as_they_are(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.int16).reshape(2, 3))
    found = literal_of('const c: i16[2, 3] = npy("a.npy")', tmp_path)
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.tolist()) == (np.int16, [[0, 1, 2], [3, 4, 5]])


def test_json_takes_the_declared_dtype(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[[1, 2.5], [3, 4]]")
    found = literal_of('const c: f16[2, 2] = json("a.json")', tmp_path)
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.tolist()) == (np.float16, [[1, 2.5], [3, 4]])
    (tmp_path / "b.json").write_text('["a", "b"]')
    found = literal_of('const c: string[2] = json("b.json")', tmp_path)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == ["a", "b"]


def test_bytes_are_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\x00\xff")
    assert literal_of('const c: bytes = bytes("a.bin")', tmp_path) == b"\x00\xff"


@pytest.mark.parametrize(
    ("item", "found"),
    [
        ('const c: string[3] = lines("two.txt")', "HR227"),
        ('const c: i64[K] = lines("two.txt")', "HR227"),
        ('const c: string[K] = lines("none.txt")', "HR311"),
        ('const c: f32[K] = npy("two.txt")', "HR312"),
        ('const c: f32[K] = npy("pickled.npy")', "HR312"),
        ('const c: f32[K] = json("two.txt")', "HR312"),
        ('const c: f32[K, J] = json("ragged.json")', "HR312"),
        ('const c: f32[K] = json("mixed.json")', "HR312"),
        ('const c: i8[K] = json("large.json")', "HR216"),
        ("const c: f32[K, K] = [[1, 2, 3]]", "HR227"),
        ("const c: string[K] = lines()", "HR312"),
        ('const c: string[K] = lnes("two.txt")', "HR101"),
        ("const c: f32 = 1 + nothing", "HR101"),
        ("const c: i64 = 2.5", "HR216"),
    ],
)
def test_constants_that_are_wrong(tmp_path: Path, item: str, found: str) -> None:
    (tmp_path / "two.txt").write_text("a\nb\n")
    (tmp_path / "ragged.json").write_text("[[1], [1, 2]]")
    (tmp_path / "mixed.json").write_text('[1, "a"]')
    (tmp_path / "large.json").write_text("[1000]")
    np.save(tmp_path / "pickled.npy", np.array([{}], object), allow_pickle=True)
    result = lowered(item + "\npipeline p(x: f32) -> (y: f32) { return y = x }", tmp_path)
    assert [one.code for one in result.diagnostics] == [found]


def test_types_may_come_in_any_order_but_not_in_a_circle() -> None:
    assert found_in("type A = list<B, 3>\ntype B = f32[2]\n") == []
    assert found_in("type A = list<B>\ntype B = A?\n") == ["HR111 2:10"]


@pytest.mark.parametrize(
    ("location", "message", "help"),
    [
        ("/etc/passwd", "`/etc/passwd` is no `.pipe` file, and `use` reads no other", None),
        (
            "keys.txt",
            "`keys.txt` is no `.pipe` file, and `use` reads no other",
            'write `const name = lines("keys.txt")`',
        ),
        (
            "m.onnx",
            "`m.onnx` is no `.pipe` file, and `use` reads no other",
            'write `model name = onnx "m.onnx"`',
        ),
        ("folder.pipe", "`folder.pipe` is a folder, and a file is wanted", None),
        ("", "no file is named", None),
        (
            "https://example.com/a.pipe",
            "`https://example.com/a.pipe` is an address, and files are read from this machine",
            "download it, and write where it is",
        ),
    ],
)
def test_what_is_no_source_is_refused_by_its_kind_and_not_read(
    tmp_path: Path, location: str, message: str, help: str | None
) -> None:
    (tmp_path / "keys.txt").write_text("secret")
    (tmp_path / "folder.pipe").mkdir()
    text = f'use "{location}" as c\npipeline p(x: f32) -> (y: f32) {{ return y = x }}'
    (found,) = lowered(text, tmp_path).diagnostics
    assert (found.code, found.message, found.help) == ("HR113", message, help)
    assert "secret" not in render([found])


@pytest.mark.parametrize(
    ("location", "help"),
    [
        ("keys.txt", 'did you mean `"key.txt"`?'),
        ("a/keys.txt", "there is no folder `a` either"),
        ("words.txt", "a path starts at the folder of this source"),
        ("/words-of-nobody.txt", None),
    ],
)
def test_a_file_that_is_not_there_comes_with_a_cure(
    tmp_path: Path, location: str, help: str | None
) -> None:
    (tmp_path / "key.txt").write_text("a\n")
    text = f'const c: string[K] = lines("{location}")\n'
    (found,) = lowered(text, tmp_path).diagnostics
    assert (found.code, found.help) == ("HR311", help)


def test_a_suggested_name_is_of_the_kind_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def modal(x): ...\nclass Model: ...\n")
    wanted = 'model m = python "f.py:Modal" (x: f32) -> (y: f32)\nfn f(x: f32) -> (y: f32)'
    text = f'{wanted} = python "f.py:mode"\npipeline p(x: f32) -> (y: f32) {{ return y = f(m(x)) }}'
    assert [one.help for one in lowered(text, tmp_path).diagnostics] == [
        'did you mean `"f.py:Model"`?',
        'did you mean `"f.py:modal"`?',
    ]
