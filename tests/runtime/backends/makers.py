"""Makers of small models, one for each backend: `same` gives back what it gets, of any dtype, and
`pair` gives the sum and the difference of two rows, the file naming the difference first."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from onnx import TensorProto, helper

import headrace
from headrace.dsl.types import DType
from headrace.stdlib.dtypes import to_numpy, to_onnx

SAME = "(x: {0}[K]) -> (y: {0}[K])"
PAIR = "(a: f32[K], b: f32[K]) -> (total: f32[K], difference: f32[K])"
TEXT = (DType.STRING, DType.BYTES)
HEADER = Path(str(headrace.__file__)).parent / "runtime" / "backends"


@dataclass(frozen=True, slots=True)
class Maker:
    """`same` and `pair` write a model into a folder and return what stands behind `model m =`;
    `junk` writes what is no model. `needs` are modules or programs without which it is skipped.
    `lacks` are the dtypes that the library has not, `tries` those worth a test of their own;
    `schedule` is put into the stage's settings."""

    name: str
    same: Callable[[Path, DType], str]
    pair: Callable[[Path], str]
    junk: Callable[[Path], str] | None
    needs: tuple[str, ...] = ()
    lacks: frozenset[DType] = frozenset(TEXT)
    schedule: str = ""
    library: str = ""  # whose version says what was tried
    slow: bool = False
    tries: frozenset[DType] = frozenset(DType)

    def missing(self) -> str | None:
        """Return the reason to skip it, None where all is there."""
        for one in self.needs:
            if shutil.which(one) is None and find_spec(one) is None:
                return f"{one} is not installed"
        return None


# ---- ONNX, by ONNX Runtime and by OpenVINO


def _onnx(nodes: list[Any], inputs: Mapping[str, int], outputs: Mapping[str, int]) -> bytes:
    def values(named: Mapping[str, int]) -> list[Any]:
        return [helper.make_tensor_value_info(n, t, ["N", "K"]) for n, t in named.items()]

    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs))
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def onnx_same(folder: Path, dtype: DType) -> str:
    number = to_onnx(DType.STRING if dtype is DType.BYTES else dtype)
    node = helper.make_node("Identity", ["x"], ["y"])
    (folder / "m.onnx").write_bytes(_onnx([node], {"x": number}, {"y": number}))
    return 'onnx "m.onnx"'


def onnx_pair(folder: Path) -> str:
    f32 = TensorProto.FLOAT
    nodes = [
        helper.make_node("Sub", ["a", "b"], ["difference"]),
        helper.make_node("Add", ["a", "b"], ["total"]),
    ]
    outputs = {"difference": f32, "total": f32}
    (folder / "m.onnx").write_bytes(_onnx(nodes, {"a": f32, "b": f32}, outputs))
    return 'onnx "m.onnx"'


def _as_openvino(folder: Path) -> str:
    openvino: Any = import_module("openvino")

    openvino.save_model(openvino.Core().read_model(str(folder / "m.onnx")), folder / "m.xml", False)
    (folder / "m.onnx").unlink()
    return 'openvino "m.xml"'


def openvino_same(folder: Path, dtype: DType) -> str:
    onnx_same(folder, dtype)
    return _as_openvino(folder)


def openvino_pair(folder: Path) -> str:
    onnx_pair(folder)
    return _as_openvino(folder)


def openvino_junk(folder: Path) -> str:
    (folder / "m.xml").write_text("<net>")
    return 'openvino "m.xml"'


# ---- Python


PYTHON = """
import numpy as np

class Same:
    def __call__(self, x):
        return x

class Pair:
    def __call__(self, a, b):
        return a + b, a - b
"""


def python_same(folder: Path, _dtype: DType) -> str:
    (folder / "m.py").write_text(PYTHON)
    return 'python "m.py:Same"'


def python_pair(folder: Path) -> str:
    (folder / "m.py").write_text(PYTHON)
    return 'python "m.py:Pair"'


def python_junk(folder: Path) -> str:
    (folder / "m.py").write_text("class Same:\n    def __init__(self):\n        1 / 0\n"
                                 "    def __call__(self, x):\n        return x\n")  # fmt: skip
    return 'python "m.py:Same"'


# ---- C


NATIVE = Path(__file__).with_name("models.c")


def build(source: Path, target: Path) -> None:
    """Compile a library, as docs/native.md says."""
    command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-std=c99"]
    subprocess.run([*command, f"-I{HEADER}", str(source), "-o", str(target)], check=True)


@cache
def _library() -> bytes:
    with TemporaryDirectory() as folder:
        build(NATIVE, Path(folder) / "m.so")
        return (Path(folder) / "m.so").read_bytes()


def _native(folder: Path, symbol: str) -> str:
    (folder / "m.so").write_bytes(_library())
    return f'native "m.so:{symbol}"'


def native_junk(folder: Path) -> str:
    (folder / "m.so").write_bytes(b"\x7fELF junk")
    return 'native "m.so:same"'


# ---- PyTorch


def _scripted(folder: Path, module: Any) -> str:
    torch: Any = import_module("torch")

    torch.jit.save(torch.jit.script(module), folder / "m.pt")
    return 'torch "m.pt"'


def script_same(folder: Path, _dtype: DType) -> str:
    same: Any = import_module("tests.runtime.backends.torch_modules").Same

    return _scripted(folder, same())


def script_pair(folder: Path) -> str:
    pair: Any = import_module("tests.runtime.backends.torch_modules").Pair

    return _scripted(folder, pair())


def torch_junk(folder: Path) -> str:
    (folder / "m.pt").write_bytes(b"junk")
    return 'torch "m.pt"'


def _exported(module: Any, *inputs: Any) -> Any:
    torch: Any = import_module("torch")

    rows, width = torch.export.Dim("rows", max=1 << 16), torch.export.Dim("width", max=1 << 16)
    shapes = [{0: rows, 1: width} for _ in inputs]
    return torch.export.export(module, inputs, dynamic_shapes=tuple(shapes))


def export_same(folder: Path, dtype: DType) -> str:
    torch: Any = import_module("torch")

    same: Any = import_module("tests.runtime.backends.torch_modules").Same

    kind = getattr(torch, "float32" if dtype in TEXT else to_numpy(dtype).name)
    program = _exported(same(), torch.ones((2, 3)).to(kind))
    torch.export.save(program, folder / "m.pt2")
    return 'torch "m.pt2"'


def export_pair(folder: Path) -> str:
    torch: Any = import_module("torch")

    pair: Any = import_module("tests.runtime.backends.torch_modules").Pair

    torch.export.save(_exported(pair(), torch.ones((2, 3)), torch.ones((2, 3))), folder / "m.pt2")
    return 'torch "m.pt2"'


@cache
def _compiled_pair() -> bytes:
    torch: Any = import_module("torch")
    pair: Any = import_module("tests.runtime.backends.torch_modules").Pair

    program = _exported(pair(), torch.ones((2, 3)), torch.ones((2, 3)))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.pt2"
        torch._inductor.aoti_compile_and_package(program, package_path=str(path))
        return path.read_bytes()


def aot_pair(folder: Path) -> str:
    (folder / "m.pt2").write_bytes(_compiled_pair())
    return 'torch "m.pt2"'


# ---- TensorFlow and LiteRT


def _saved(folder: Path, function: Any, *specs: Any) -> str:
    tensorflow: Any = import_module("tensorflow")

    module: Any = tensorflow.Module()
    module.f = tensorflow.function(function, input_signature=specs)
    signatures = {"serving_default": module.f}
    tensorflow.saved_model.save(module, str(folder / "m"), signatures=signatures)
    return 'tensorflow "m"'


def tensorflow_same(folder: Path, dtype: DType) -> str:
    tensorflow: Any = import_module("tensorflow")

    kind = "string" if dtype in TEXT else to_numpy(dtype).name
    spec = tensorflow.TensorSpec((None, None), kind, name="x")

    def same(x: Any) -> dict[str, Any]:
        return {"y": tensorflow.identity(x)}

    return _saved(folder, same, spec)


def tensorflow_pair(folder: Path) -> str:
    tensorflow: Any = import_module("tensorflow")

    def pair(a: Any, b: Any) -> dict[str, Any]:
        return {"difference": a - b, "total": a + b}

    specs = [tensorflow.TensorSpec((None, None), "float32", name=name) for name in "ab"]
    return _saved(folder, pair, *specs)


def tensorflow_junk(folder: Path) -> str:
    (folder / "m").mkdir()
    (folder / "m" / "saved_model.pb").write_bytes(b"junk")
    return 'tensorflow "m"'


def litert_same(folder: Path, dtype: DType) -> str:
    tflite: Any = import_module("tests.runtime.backends.tflite")
    tflite.write_same(folder / "m.tflite", DType.F32 if dtype in TEXT else dtype)
    return 'litert "m.tflite"'


def litert_pair(folder: Path) -> str:
    import_module("tests.runtime.backends.tflite").write_pair(folder / "m.tflite")
    return 'litert "m.tflite"'


def litert_junk(folder: Path) -> str:
    (folder / "m.tflite").write_bytes(b"junk" * 10)
    return 'litert "m.tflite"'


# ---- another server


@dataclass(slots=True)
class Servers:
    """Servers of models that stay until the tests end."""

    stack: ExitStack = field(default_factory=ExitStack)

    def serve(self, folder: Path, model: str, signature: str, scheme: str) -> str:
        """Serve a model on its own and return the declaration of a remote one."""
        from headrace.runtime.engine import Engine
        from headrace.runtime.engine_config import EngineConfig
        from headrace.runtime.server import serve
        from headrace.runtime.server_config import ServerConfig

        names = ", ".join(one.split(":")[0] for one in signature.split(") ->")[0][1:].split(", "))
        results = [one.split(":")[0].strip(" (") for one in signature.split("-> ")[1].split(", ")]
        given = ", ".join(results)
        text = f"model m = {model} {signature}\npipeline served{signature} batch 1024 {{\n"
        text += f"    {given} = m({names})\n    return "
        text += ", ".join(f"{one} = {one}" for one in results) + "\n}\n"
        (folder / "served.pipe").write_text(text)
        plan = headrace.compile(folder / "served.pipe").plan
        engine = Engine(plan, EngineConfig(workers=2))
        self.stack.callback(engine.close)
        config = ServerConfig(http_port=0, grpc_port=0, metrics_port=0)
        server = self.stack.enter_context(serve([engine], config))
        where = server.addresses
        address = where.grpc if scheme == "grpc" else where.http
        return f'remote "{scheme}://{address}/served"'


ON_THE_WIRE = frozenset({DType.BOOL, DType.U8, DType.I64, DType.BF16, DType.F16, *TEXT})


def remote_makers(scheme: str, servers: Servers) -> Maker:
    def same(folder: Path, dtype: DType) -> str:
        if dtype in TEXT:
            return servers.serve(
                folder, python_same(folder, dtype), SAME.format(dtype.value), scheme
            )
        return servers.serve(folder, onnx_same(folder, dtype), SAME.format(dtype.value), scheme)

    def pair(folder: Path) -> str:
        return servers.serve(folder, onnx_pair(folder), PAIR, scheme)

    return Maker(
        f"remote {scheme}", same, pair, None, ("grpc", "onnxruntime"), frozenset(),
        library="grpcio", slow=True, tries=ON_THE_WIRE,
    )  # fmt: skip


def makers(servers: Servers) -> Iterator[Maker]:
    """Yield one for each backend and form of its models."""
    everything = frozenset(DType)
    onnx_lacks: frozenset[DType] = frozenset()
    yield Maker(
        "onnx", onnx_same, onnx_pair, None, ("onnxruntime",), onnx_lacks, library="onnxruntime"
    )
    yield Maker(
        "onnx on openvino", onnx_same, onnx_pair, None, ("openvino",), frozenset(TEXT),
        "backend = openvino", "openvino", slow=True,
    )  # fmt: skip
    yield Maker(
        "openvino", openvino_same, openvino_pair, openvino_junk, ("openvino",), library="openvino",
        slow=True,
    )  # fmt: skip
    yield Maker("python", python_same, python_pair, python_junk, (), frozenset(), library="")
    yield Maker(
        "native", lambda folder, _: _native(folder, "same"), lambda folder: _native(folder, "pair"),
        native_junk, ("gcc",),
    )  # fmt: skip
    for scheme in ("grpc", "http"):
        yield remote_makers(scheme, servers)
    yield Maker(
        "torch script", script_same, script_pair, torch_junk, ("torch",), library="torch", slow=True
    )
    yield Maker(
        "torch export", export_same, export_pair, torch_junk, ("torch",), library="torch", slow=True
    )
    yield Maker(
        "torch aot", script_same, aot_pair, None, ("torch", "g++"), everything, library="torch",
        slow=True,
    )  # fmt: skip
    yield Maker(
        "tensorflow", tensorflow_same, tensorflow_pair, tensorflow_junk, ("tensorflow",),
        frozenset(), library="tensorflow", slow=True,
    )  # fmt: skip
    yield Maker(
        "litert",
        litert_same,
        litert_pair,
        litert_junk,
        ("ai_edge_litert",),
        library="ai-edge-litert",
    )


_ENCODE = np.frompyfunc(str.encode, 1, 1)


def sample(dtype: DType, *shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return values that a dtype can hold, the same for a seed."""
    random = np.random.default_rng(seed)
    if dtype in TEXT:
        words = np.empty(shape, object)
        words[...] = np.frompyfunc(lambda n: f"wört {n}", 1, 1)(random.integers(0, 99, shape))
        return words if dtype is DType.STRING else np.asarray(_ENCODE(words), object)
    if dtype is DType.BOOL:
        return random.integers(0, 2, shape).astype(bool)
    return random.integers(0, 100, shape).astype(to_numpy(dtype))


assert sys.platform == "linux", "what it takes of gcc and libraries is Linux's"
