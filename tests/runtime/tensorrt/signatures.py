"""What each version of TensorRT's bindings has, for tests that have none of them installed.

    python -m tests.runtime.tensorrt.signatures FOLDER...

writes `signatures/<version>.json` from bindings that were installed into a folder
(`pip install --no-deps --target FOLDER tensorrt-cu13-bindings==11.4.0.106`). The bindings want
libraries that PyPI does not have: stubs that export the same functions let them be imported, and
nothing in them is called. TensorRT for RTX brings its libraries along.
"""

import ctypes
import json
import re
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "signatures"

CLASSES = (
    *("Builder", "IBuilderConfig", "IOptimizationProfile", "INetworkDefinition", "OnnxParser"),
    *("ITensor", "ILayer", "ParserError", "Runtime", "ICudaEngine", "IExecutionContext"),
    *("IOutputAllocator", "ILogger", "ITimingCache", "IHostMemory", "EngineInspector"),
    *("OnnxParserRefitter", "Refitter", "BuilderFlag", "NetworkDefinitionCreationFlag"),
    *("MemoryPoolType", "ProfilingVerbosity", "HardwareCompatibilityLevel", "DeviceType"),
    *("TensorIOMode", "TensorLocation", "ExecutionContextAllocationStrategy", "DataType"),
    *(*("LayerInformationFormat", "PreviewFeature"),),
)
"""Of all others nothing is used."""

_LIBRARIES = ("nvinfer", "nvonnxparser", "nvinfer_plugin", "nvparsers")
_EXPORTED = (
    *("createInferBuilder_INTERNAL", "createInferRefitter_INTERNAL", "createInferRuntime_INTERNAL"),
    *("createNvOnnxParser_INTERNAL", "createNvOnnxParserRefitter_INTERNAL"),
    *("getBuilderPluginRegistry", "getNvOnnxParserVersion", "getPluginRegistry"),
    *("initLibNvInferPlugins", "_ZN11nvuffparser15createUffParserEv"),
    *(
        "_ZN11nvuffparser8FieldMapC1EPKcPKvNS_9FieldTypeEi",
        "_ZN14nvcaffeparser117createCaffeParserEv",
    ),
    "_ZN14nvcaffeparser123shutdownProtobufLibraryEv",
)


def versions() -> list[str]:
    """Return the versions whose signatures are kept, the oldest first."""
    names = [path.stem for path in FOLDER.glob("*.json")]
    return sorted(names, key=lambda one: (one.startswith("rtx"), [*map(int, _numbers(one))]))


def members(version: str) -> dict[str, str]:
    """Return `Class.member` of a version, with the signature that its documentation gives."""
    found: dict[str, str] = json.loads((FOLDER / f"{version}.json").read_text("utf-8"))
    return found


def imported(folder: Path) -> Any:
    """Return the bindings in a folder, with stubs where they come without libraries."""
    sys.path.insert(0, str(folder))
    if (folder / "tensorrt_rtx_bindings").is_dir():
        return import_module("tensorrt_rtx_bindings")
    library = next((folder / "tensorrt_bindings").glob("*.so"))
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as made:
        for name in (f"lib{one}.so" for one in _LIBRARIES):
            for line in dynamic.stdout.splitlines():
                if f"[{name}." in line:
                    _stub(Path(made), line.partition("[")[2].rstrip("]"))
        return import_module("tensorrt_bindings")


def _stub(folder: Path, name: str) -> None:
    source = "".join(f"void *{one}(void) {{ return 0; }}\n" for one in _EXPORTED)
    (folder / "stub.c").write_text(source)
    command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", folder / name]
    subprocess.run([*command, folder / "stub.c"], check=True)
    ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)


def described_as(module: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in CLASSES:
        kind = getattr(module, name, None)
        for member in sorted(vars(kind)) if kind is not None else ():
            if not member.startswith("_"):
                found[f"{name}.{member}"] = _signature(member, getattr(kind, member))
    return found


def _signature(name: str, member: Any) -> str:
    lines = (getattr(member, "__doc__", None) or "").splitlines()
    given = [line.strip().removeprefix("1. ") for line in lines if f"{name}(self" in line]
    return re.sub(r"tensorrt_\w+\.tensorrt\w*\.", "", given[0]) if given else ""


def _numbers(version: str) -> list[str]:
    return version.removeprefix("rtx-").split(".")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        if len(sys.argv) > 2:  # one process can import one of them
            subprocess.run([sys.executable, "-m", __spec__.name, argument], check=True)
            continue
        bindings = imported(Path(argument))
        is_rtx = "rtx" in bindings.__name__
        path = FOLDER / f"{'rtx-' if is_rtx else ''}{bindings.__version__}.json"
        path.write_text(
            json.dumps(described_as(bindings), indent=0, sort_keys=True) + "\n", "utf-8"
        )
        print(path, len(described_as(bindings)))
