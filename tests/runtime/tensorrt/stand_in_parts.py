"""The classes of a stand-in for TensorRT, with what any version has; `stand_in.py` takes away
what a version has not.
"""

import ctypes
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime

from headrace.dsl.types import DType
from headrace.stdlib.dtypes import to_numpy, to_onnx

SCRATCH = 1000
_WORDS = {
    DType.F32: "FLOAT",
    DType.F16: "HALF",
    DType.I32: "INT32",
    DType.I64: "INT64",
    DType.BOOL: "BOOL",
    DType.U8: "UINT8",
}
_DTYPES = {to_onnx(one): one for one in _WORDS}


class Word:
    """A member of an enumeration."""

    def __init__(self, kind: str, word: str, number: int) -> None:
        self.kind, self.word, self.number = kind, word, number

    def __int__(self) -> int:
        return self.number

    def __str__(self) -> str:
        return f"{self.kind}.{self.word}"


class Part:
    """What a stand-in knows of its version: `made` is set where it is limited."""

    made: Any
    called = ""


class Profile(Part):
    called = "IOptimizationProfile"

    def __init__(self) -> None:
        self._shapes: dict[str, Any] = {}

    def set_shape(self, name: str, least: Any, usual: Any, most: Any) -> None:
        self._shapes[name] = [list(least), list(usual), list(most)]


class TimingCache(Part):
    called = "ITimingCache"

    def __init__(self, content: bytes) -> None:
        self._content = content

    def serialize(self) -> bytes:
        return self._content + b"t"


class Config(Part):
    called = "IBuilderConfig"

    def __init__(self) -> None:
        self._flags: list[str] = []
        self._profiles: list[Any] = []

    def set_flag(self, flag: Any) -> None:
        self._flags.append(str(flag))

    def set_memory_pool_limit(self, pool: Any, size: int) -> None:
        self._flags.append(f"{pool} {size}")

    def set_preview_feature(self, feature: Any, enable: bool) -> None:
        self._flags.append(f"{feature} {enable}")

    def add_optimization_profile(self, profile: Any) -> int:
        self._profiles.append(profile._shapes)
        return 0

    def create_timing_cache(self, content: bytes) -> Any:
        return self.made.module.ITimingCache(content)

    def set_timing_cache(self, cache: Any, ignore: bool) -> bool:
        del ignore
        return not cache._content.startswith(b"another")

    def can_run_on_DLA(self, layer: Any) -> bool:
        return str(layer.type) != "LayerType.SOFTMAX"


class Network(Part):
    called = "INetworkDefinition"

    def __init__(self, flags: int) -> None:
        self._flags = flags
        self._model = onnx.ModelProto()

    @property
    def num_inputs(self) -> int:
        return len(self._model.graph.input)

    @property
    def num_layers(self) -> int:
        return len(self._model.graph.node)

    def get_input(self, index: int) -> Any:
        one = self._model.graph.input[index]
        dims = one.type.tensor_type.shape.dim
        shape = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in dims)
        return SimpleNamespace(name=one.name, shape=shape, is_shape_tensor=one.name == "sizes")

    def get_layer(self, index: int) -> Any:
        node = self._model.graph.node[index]
        number = self._model.graph.input[0].type.tensor_type.elem_type
        output = SimpleNamespace(dtype=Word("DataType", _WORDS[_DTYPES[number]], 0))
        kind = Word("LayerType", node.op_type.upper(), 0)
        return SimpleNamespace(
            type=kind, name=node.name, num_outputs=1, get_output=[output].__getitem__
        )


class Parser(Part):
    called = "OnnxParser"

    def __init__(self, network: Any, logger: Any) -> None:
        self._network, self._logger = network, logger
        self._errors: list[str] = []

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def parse(self, content: bytes) -> bool:
        self._network._model = onnx.ModelProto.FromString(content)
        refused = [n for n in self._network._model.graph.node if n.op_type == "Erf"]
        self._errors = [f"no importer for {node.op_type}" for node in refused]
        return not refused

    def get_error(self, index: int) -> Any:
        return SimpleNamespace(desc=lambda: self._errors[index])


class Builder(Part):
    called = "Builder"

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    @property
    def num_DLA_cores(self) -> int:
        return self.made.dla_cores

    def create_network(self, flags: int = 0) -> Any:
        return self.made.module.INetworkDefinition(flags)

    def create_builder_config(self) -> Any:
        return self.made.module.IBuilderConfig()

    def create_optimization_profile(self) -> Any:
        return self.made.module.IOptimizationProfile()

    def build_serialized_network(self, network: Any, config: Any) -> bytes:
        said = {"version": self.made.module.__version__, "profile": config._profiles[0]}
        said["flags"] = config._flags
        return json.dumps(said).encode() + b"\n" + network._model.SerializeToString()


class Runtime(Part):
    called = "Runtime"

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def deserialize_cuda_engine(self, content: bytes) -> Any:
        head, _, model = content.partition(b"\n")
        said = json.loads(head)
        if said["version"] != self.made.module.__version__:
            self._logger.log("error", f"the engine is of {said['version']}")
            return None
        return self.made.module.ICudaEngine(said, model)


class Engine(Part):
    called = "ICudaEngine"
    streamable_weights_size = 4096

    def __init__(self, said: dict[str, Any], model: bytes) -> None:
        self._said, self._content = said, model
        self._contexts: list[Any] = []
        self._load(model)

    def _load(self, model: bytes) -> None:
        proto = onnx.ModelProto.FromString(model)
        graph = proto.graph
        self._io = [*graph.input, *graph.output]
        self._inputs = len(graph.input)
        self._content = model
        self._sized = any(node.op_type == "NonZero" for node in graph.node)
        self._run = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run

    @property
    def num_io_tensors(self) -> int:
        return len(self._io)

    @property
    def device_memory_size(self) -> int:
        return SCRATCH

    def get_tensor_name(self, index: int) -> str:
        return str(self._io[index].name)

    def get_tensor_mode(self, name: str) -> Any:
        mode = self.made.module.TensorIOMode
        return mode.INPUT if name in self._names()[: self._inputs] else mode.OUTPUT

    def get_tensor_dtype(self, name: str) -> Any:
        number = self._io[self._names().index(name)].type.tensor_type.elem_type
        word = _WORDS[_DTYPES[number]]
        short = word == "INT64" and self.made.module.__version__.startswith("8.")
        return Word("DataType", "INT32" if short else word, 0)

    def get_tensor_location(self, name: str) -> Any:
        location = self.made.module.TensorLocation
        return location.HOST if name == "shape" else location.DEVICE

    def create_execution_context(self, strategy: Any = None) -> Any:
        return self.made.module.IExecutionContext(self, strategy)

    def create_execution_context_without_device_memory(self) -> Any:
        return self.made.module.IExecutionContext(self, None)

    def serialize(self) -> bytes:
        return json.dumps(self._said).encode() + b"\n" + self._content

    def _names(self) -> list[str]:
        return [one.name for one in self._io]


class Context(Part):
    called = "IExecutionContext"

    def __init__(self, engine: Any, strategy: Any) -> None:
        self._engine, self._strategy = engine, strategy
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._places: dict[str, int] = {}
        self._allocators: dict[str, Any] = {}
        self._results: list[Any] = []
        self._scratch = 0
        shares = "8.6" not in self.made.module.__version__
        self._profile = 0 if shares or not engine._contexts else -1
        engine._contexts.append(self)

    def set_optimization_profile_async(self, profile: int, stream: int) -> bool:
        assert stream
        shared = "PreviewFeature.PROFILE_SHARING_0806 True" in self._engine._said["flags"]
        self._profile = profile if shared or self._engine._contexts == [self] else -1
        return self._profile >= 0

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        least, _, most = self._engine._said["profile"][name]
        sizes = zip(least, shape, most, strict=True)
        self._shapes[name] = tuple(shape)
        return all(low <= size <= high for low, size, high in sizes)

    def set_tensor_address(self, name: str, place: int) -> bool:
        self._places[name] = place
        return place != 0

    def set_output_allocator(self, name: str, allocator: Any) -> bool:
        self._allocators[name] = allocator
        return True

    def infer_shapes(self) -> list[str]:
        engine = self._engine
        missing = [one.name for one in engine._io[: engine._inputs] if one.name not in self._shapes]
        if not missing:
            feeds = {n: np.zeros(s, self._dtype(n)) for n, s in self._shapes.items()}
            self._results = [np.shape(one) for one in engine._run(None, feeds)]
        return missing

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        engine = self._engine
        shape = self._results[engine._names().index(name) - engine._inputs]
        return tuple(-1 for _ in shape) if engine._sized else tuple(shape)

    def get_max_output_size(self, name: str) -> int:
        del name
        return max(8 * 2 * int(np.prod(shape)) for shape in self._shapes.values())

    def update_device_memory_size_for_shapes(self) -> int:
        return SCRATCH

    def set_device_memory(self, place: int, size: int) -> None:
        assert place % 256 == 0
        assert size == SCRATCH
        assert "USER_MANAGED" in str(self._strategy)
        self._scratch = place

    def execute_async_v3(self, stream: int) -> bool:
        engine, names = self._engine, self._engine._names()
        assert stream
        assert self._profile == 0, "a context has no profile"
        scratch = self._scratch or vars(self)["device_memory"]
        ctypes.memset(scratch, 0xAB, SCRATCH)  # it is ours
        feeds = {n: _at(self._places[n], s, self._dtype(n)) for n, s in self._shapes.items()}
        for name, result in zip(names[engine._inputs :], engine._run(None, feeds), strict=True):
            place = self._places.get(name)
            if name in self._allocators:
                place = self._allocated(self._allocators[name], name, result.nbytes)
                if not place:
                    return False
                self._allocators[name].notify_shape(name, result.shape)
            _at(place or 0, result.shape, result.dtype)[...] = result
        return True

    def _allocated(self, allocator: Any, name: str, nbytes: int) -> int:
        if self._strategy is not None:  # since version 10
            return int(allocator.reallocate_output_async(name, 0, nbytes, 256, 1))
        return int(allocator.reallocate_output(name, 0, nbytes, 256))

    def _dtype(self, name: str) -> Any:
        word = self._engine.get_tensor_dtype(name).word
        return to_numpy(next(one for one, known in _WORDS.items() if known == word))


class Refitter(Part):
    called = "Refitter"

    def __init__(self, engine: Any, logger: Any) -> None:
        self._engine, self._logger, self._model = engine, logger, b""

    def refit_cuda_engine(self) -> bool:
        self._engine._load(self._model)
        return True


class ParserRefitter(Part):
    called = "OnnxParserRefitter"

    def __init__(self, refitter: Any, logger: Any) -> None:
        self._refitter, self._logger = refitter, logger

    def refit_from_bytes(self, content: bytes) -> bool:
        self._refitter._model = content
        return True


def _at(place: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return the memory at an address as an array."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = (ctypes.c_char * nbytes).from_address(place)
    return np.frombuffer(memoryview(raw), dtype).reshape(shape)
