"""Typed stubs: what is written is right Python, means what pipelines mean, and calls them."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import headrace
from headrace import App, Client, Code, CompileError, Fault
from headrace.cli import main
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import ServerConfig
from headrace.stubs.names import python_names
from headrace.stubs.write import write_stub
from tests.client.same import plan_in
from tests.client.test_same import NUMBERS, ROWS, plain

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*/*.pipe"))
STRANGE = """
pipeline class(lambda: f32, self: i64 = 2, timeout: string = "a \\"b\\"", _x: bool = true) -> (
    count: f32, str: i64, timeout: string, def: bool)
{
    return count = lambda, str = self, timeout = timeout, def = _x
}
pipeline str(x: string) -> (bytes: string, x: string) { return bytes = x, x = x }
pipeline class_(id: i64, priority: f32[N]) -> (index: i64, Any: f32[N]) {
    return index = id, Any = priority
}
pipeline stubs() -> (y: f32) { return y = 1 }
pipeline a_b(x: f32) -> (y: f32) { return y = x }
pipeline _1(_1: f32, __: f32) -> (_2: f32) { return _2 = _1 + __ }
pipeline rows(x: f32 = 0.5, b: bool = true, o: f32?, t: string = "a", l: list<f32[2]> = []) -> (
    x: f32, b: bool, o: f32?, t: string, l: list<f32[2]>) batch 4
{
    return x = x, b = b, o = o, t = t, l = l
}
pipeline aB(x: f32) -> (y: f32) { return y = x }
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> headrace.CompiledPlan:
    return plan_in(tmp_path_factory.mktemp("stubs"))


@pytest.fixture(scope="module")
def server(plan: headrace.CompiledPlan) -> Iterator[Server]:
    engine = Engine(plan.plan, EngineConfig(workers=2, intra_op_threads=1))
    with serve([engine], ServerConfig(http_port=0, grpc_port=0, metrics_port=None)) as server:
        yield server
    engine.close()


@pytest.fixture(scope="module")
def app(plan: headrace.CompiledPlan) -> Iterator[App]:
    with headrace.load(plan, workers=2, intra_op_threads=1) as app:
        yield app


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Client]:
    with Client(f"grpc://{server.addresses.grpc}") as client:
        yield client


def written(plan: headrace.CompiledPlan, name: str = "same") -> str:
    return write_stub(plan.plan.pipelines, "same.pipe", "sha256 0", name)


def module_of(text: str, folder: Path, name: str) -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fits(value: object, kind: Any) -> bool:  # Any: an annotation
    """Whether a result is what its annotation says."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin is UnionType:
        return any(fits(value, one) for one in inner)
    if origin is list:
        return isinstance(value, list) and all(fits(one, inner[0]) for one in value)
    if origin is np.ndarray:
        scalar = get_args(inner[1])[0]
        return isinstance(value, np.ndarray) and (scalar is Any or value.dtype.type is scalar)
    return type(value) is kind or (kind is NoneType and value is None)


Calls: dict[str, Callable[[Any], Any]] = {  # Any: of a stub
    "numbers": lambda stub: stub.numbers(**NUMBERS),
    "texts": lambda stub: stub.texts(a="ü", b=b"\xff", c=["a"]),
    "defaults": lambda stub: stub.defaults(),
    "maybe": lambda stub: stub.maybe(x=None, y=[1, 2]),
    "given": lambda stub: stub.maybe(x=1.0, y=None),
    "lists": lambda stub: stub.lists(
        a=[[1, 2, 3, 4]], b=[np.zeros((2, 1), np.float32)], c=["a", ""]
    ),
    "ragged": lambda stub: stub.ragged(n=2),
    "rows": lambda stub: stub.rows(**ROWS),
    "submitted": lambda stub: stub.two.submit(x=1.0).result(20),
    "awaited": lambda stub: asyncio.run(stub.two.aio(x=1.0, timeout=20)),
    "told": lambda stub: stub.asks(x=1.0, id="k", parameters={"a": 1}, priority=1),
    "own": lambda stub: stub.timeout(timeout=2.0, id="mine"),
}


@pytest.mark.parametrize("name", Calls)
def test_a_stub_answers_as_what_it_is_of_and_results_are_as_annotated(
    plan: headrace.CompiledPlan, app: App, client: Client, tmp_path: Path, name: str
) -> None:
    module = module_of(written(plan), tmp_path, "same_client")
    mine, theirs = (Calls[name](module.SameClient(one)) for one in (app, client))
    assert plain(mine) == plain(theirs)
    assert plain(list(mine))[0] == plain(list(Calls[name](app)))[0]  # type: ignore[index] a list
    hints = get_type_hints(type(mine))
    for field, kind in hints.items():
        assert fits(getattr(mine, field), kind), (field, kind)


def test_streams_and_sequences_have_stubs(
    plan: headrace.CompiledPlan, app: App, client: Client, tmp_path: Path
) -> None:
    module = module_of(written(plan), tmp_path, "same_client")

    async def all_of(records: Any) -> list[Any]:  # Any: of a stub
        return [one async for one in records]

    for stub in (module.SameClient(app), module.SameClient(client)):
        emitted = list(stub.spoken.stream(x=0.0, most=2))
        assert [int(one.n) for one in emitted] == [0, 1]
        assert isinstance(emitted[0], module.SpokenAnswer)
        found = asyncio.run(all_of(stub.spoken.aio_stream(x=0.0, most=2)))
        assert plain(found) == plain(emitted)
        with stub.counted.sequence() as calls:
            assert [float(calls(x=1.0).y), float(calls.submit(x=2.0).result(20).y)] == [1, 3]
            assert float(asyncio.run(calls.aio(x=1.0)).y) == 4
            assert float(calls.last(x=1.0).y) == 5
        with stub.growing.sequence("own") as calls:
            assert calls.id == "own"
            assert [float(one.y) for one in calls.stream(x=2.0)] == [0, 2]


def test_names_that_python_does_not_allow_have_others(tmp_path: Path) -> None:
    source = tmp_path / "strange.pipe"
    source.write_text(STRANGE)
    plan = headrace.compile(source)
    module = module_of(written(plan, "1 class"), tmp_path, "strange")
    with headrace.load(plan) as app:
        stub = module.The1ClassClient(app)
        answer = stub.class__(lambda_=1.5)
        assert plain(list(answer)) == plain([np.float32(1.5), np.int64(2), 'a "b"', np.bool_(True)])
        assert answer._fields == ("count_", "str_", "timeout", "def_")
        assert stub.class__(lambda_=1.0, self_=3, timeout="t", x_=False)[1:] == (3, "t", False)
        assert stub.str_(x="a").bytes_ == "a"
        assert stub.class_(id=4, priority=[1.0]).index_ == 4
        assert stub.stubs_().y == 1
        assert stub.a_b(x=1.0).y == stub.aB(x=1.0).y == 1
        assert stub.value_1(value_1=1.0, value_=2.0).value_2 == 3
        assert [list(one) for one in stub.rows(b=[False, True])[2:4]] == [[None] * 2, ["a"] * 2]


def test_each_name_is_itself_where_it_can_be_and_none_is_used_twice() -> None:
    names = ["if", "if_", "_a", "a_", "a", "__", "_1", "_1_", "value_1", "ok", "str"]
    found = python_names(names, ("str",))
    assert len(set(found.values())) == len(names)
    assert {one: found[one] for one in ("if_", "a_", "a", "ok")} == {
        one: one for one in ("if_", "a_", "a", "ok")
    }
    assert all(one.isidentifier() and not one.startswith("_") for one in found.values())


def test_a_stub_refuses_pipelines_that_are_others(
    plan: headrace.CompiledPlan, client: Client, tmp_path: Path
) -> None:
    other = headrace.compile("pipeline two(x: f32, z: f32) -> (a: f32) {\n return a = x + z }\n")
    module = module_of(written(other, "other"), tmp_path, "other_client")
    with pytest.raises(Fault, match=r"make the stub anew.*\n  here  two\(x: f32\) ->") as error:
        module.OtherClient(client)
    assert error.value.code is Code.INVALID
    missing = headrace.compile("pipeline nowhere(x: f32) -> (a: f32) {\n return a = x }\n")
    module = module_of(written(missing, "missing"), tmp_path, "missing_client")
    with headrace.load(plan) as app:
        for calls in (client, app):
            with pytest.raises(Fault, match="nowhere") as error:
                module.MissingClient(calls)
            assert error.value.code is Code.NOT_FOUND


@pytest.mark.slow
def test_the_command_writes_the_same_of_a_source_a_plan_and_a_server(
    plan: headrace.CompiledPlan,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    plan.save("same.plan")
    assert main(["client", "same.plan", "-o", "one_client.py"]) == 0
    assert main(["client", "same.plan", "-o", "one_client.py"]) == 0
    for scheme in ("grpc", "http"):
        where = f"{scheme}://{getattr(server.addresses, scheme)}"
        assert main(["client", where, "-o", f"{scheme}/one_client.py"]) == 2
        Path(scheme).mkdir()
        assert main(["client", where, "-o", f"{scheme}/one_client.py"]) == 0
    capsys.readouterr()
    assert main(["client", "same.plan"]) == 0
    assert "class SameClient(stubs.Stub):" in capsys.readouterr().out
    one = Path("one_client.py").read_text()
    assert f'PLAN = "sha256 {headrace_hash(plan)}"' in one
    assert "versions asks 1, counted 1" in Path("grpc/one_client.py").read_text()
    for scheme in ("grpc", "http"):
        text = Path(scheme, "one_client.py").read_text()
        assert body_of(text) == body_of(one)
    assert main(["client", "grpc://127.0.0.1:1"]) == 3
    assert "grpc://127.0.0.1:1 cannot be reached" in capsys.readouterr().err
    assert main(["client", "ftp://127.0.0.1:1"]) == 2


def body_of(text: str) -> list[str]:
    """Return the lines, in whatever order, but for those that say of what they were made."""
    return sorted(line for line in text.splitlines()[1:] if not line.startswith("PLAN"))


def headrace_hash(plan: headrace.CompiledPlan) -> str:
    from headrace.compiler.plan_file import plan_hash

    return plan_hash(plan.plan)


USES = """
from collections.abc import Iterator
from concurrent.futures import Future
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import headrace
import same_client as same

stub = same.SameClient(headrace.load("same.plan"))
remote = same.SameClient(headrace.Client("grpc://127.0.0.1:8001"))
assert_type(stub.two(x=1.0), same.TwoAnswer)
assert_type(remote.two.submit(x=np.float32(1)), Future[same.TwoAnswer])
assert_type(stub.texts(a="a", b=b"", c=["a"], timeout=1).c, NDArray[np.object_])
assert_type(stub.lists(a=[], b=[], c=[]).b, list[NDArray[np.float32]])
assert_type(stub.maybe(x=None, y=None).x, np.float32 | None)
assert_type(stub.spoken.stream(x=1.0), Iterator[same.SpokenAnswer])
assert_type(stub.counted.sequence()(x=1.0), same.CountedAnswer)
stub.two(y=1.0)  # wrong
stub.two(x="a")  # wrong
stub.two.submit(x=1.0, timeout="a")  # wrong
stub.spoken(x=1.0)  # wrong
stub.counted(x=1.0)  # wrong
remote.nothing()  # wrong
"""


@pytest.mark.slow
def test_stubs_of_all_examples_are_formatted_and_strictly_typed(
    plan: headrace.CompiledPlan, tmp_path: Path
) -> None:
    names = ["same"]
    (tmp_path / "same_client.py").write_text(written(plan))
    (tmp_path / "strange.pipe").write_text(STRANGE)
    for source in (*EXAMPLES, tmp_path / "strange.pipe"):
        try:
            made = headrace.compile(source)
        except CompileError as error:
            # its model is made by a script, or in a package that is not installed
            missing = {one.code for one in error.diagnostics} & {"HR301", "HR313"}
            if not missing:
                raise
            continue
        text = written(made, source.stem)
        assert text == written(made, source.stem)
        (tmp_path / f"{source.stem}_client.py").write_text(text)
        names.append(source.stem)
    assert {"same", "strange", "ocr", "vad"} <= set(names)
    (tmp_path / "uses.py").write_text(USES)
    (tmp_path / "strange.pipe").unlink()
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    ruff = Path(sys.executable).with_name("ruff")
    clients = sorted(tmp_path.glob("*_client.py"))
    for command in (["format", "--diff"], ["check", "--select", "F,I,UP,B"]):
        done = subprocess.run(
            [ruff, *command, "--isolated", "--no-cache", *clients], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    told = {(Path(one["file"]).name, one["range"]["start"]["line"]) for one in found}
    wrong = {("uses.py", i) for i, line in enumerate(USES.splitlines()) if line.endswith("# wrong")}
    assert told == wrong, json.dumps(found, indent=1)
