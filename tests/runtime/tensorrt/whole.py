"""A plan with an engine, from its file to answers, on a machine that looks as if it had a GPU.

    python -m tests.runtime.tensorrt.whole FOLDER VERSION

The driver is a library that says so, TensorRT a stand-in, the GPU the simulated device. A process
of its own, since a driver that is loaded stays so.
"""

import ctypes
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import headrace
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Request
from headrace.runtime.tensorrt.driver import Gpu, find_gpu
from tests.runtime.tensorrt.engines import PIPE, NumberedDevice, scaled
from tests.runtime.tensorrt.stand_in import stand_in

DRIVER = """
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDriverGetVersion(int *version) { *version = 13010; return 0; }
int cuDeviceGetName(char *name, int size, int device)
{
    strncpy(name, "NVIDIA Said", size);
    return 0;
}
int cuDeviceGetAttribute(int *value, int which, int device)
{
    *value = which == 75 ? 8 : 7;
    return 0;
}
"""


def load_driver(folder: Path) -> None:
    """Let `libcuda.so.1` be found by its name from now on."""
    (folder / "cuda.c").write_text(DRIVER)
    path = folder / "libcuda.so.1"
    command = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", path]
    subprocess.run([*command, folder / "cuda.c"], check=True)
    ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


class Gpu0(NumberedDevice):
    """The simulated device, called as a GPU is."""

    @property
    def name(self) -> str:
        return "gpu:0"


def run(folder: Path, version: str) -> None:
    assert find_gpu(0) is None, "there is a driver already"
    load_driver(folder)
    assert find_gpu(0) == Gpu("NVIDIA Said", 87, 13010)
    assert find_gpu(1) is None
    package: Any = stand_in(version)
    sys.modules["tensorrt"] = package
    scaled(folder / "m.onnx")
    settings = "batch { max = 4 }, warmup = on, engine { sizes { K = [8, 16, 64] } }"
    signature, body = (
        "(x: f32[K]) -> (y: f32[K], z: f32[K])",
        "y, z = m(x)\n    return y = y, z = z",
    )
    path = folder / "p.pipe"
    path.write_text(PIPE.format(signature=signature, body=body, settings=settings, batch=""))
    plan, device = headrace.compile(path).plan, Gpu0()
    config = EngineConfig(workers=2, devices=(device,), engines=folder / "engines")
    for _ in range(2):
        with closing(Engine(plan, config)) as engine:
            x = np.arange(8, dtype=np.float32)
            waiting = [engine.submit(Request("p", {"x": x + number})) for number in range(16)]
            for number, one in enumerate(waiting):
                y, z = map(np.asarray, one.result().outputs.values())
                assert np.array_equal(y, (x + number) * 3)
                assert np.array_equal(z, (x + number) * 1.5)
    assert package.calls.count("Builder.build_serialized_network") == 1
    device.close()
    print("answered")


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2])
