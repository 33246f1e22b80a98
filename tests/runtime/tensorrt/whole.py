"""A plan with an engine, from its file to answers, on a machine that looks as if it had a GPU.

    python -m tests.runtime.tensorrt.whole FOLDER VERSION (small|ocr)

The driver is a library that says so, TensorRT a stand-in, the GPU the simulated device. A process
of its own, since a driver that is loaded stays so.
"""

import ctypes
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import headrace
from headrace.compiler.plan import Plan
from headrace.runtime.devices.cuda_driver import Gpu, find_gpu
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Request
from tests.runtime.tensorrt.engines import OCR, OCR_SCHEDULE, PIPE, SCALED, NumberedDevice, scaled
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


def small(folder: Path) -> None:
    """Submit rows that meet in batches, twice: the second time the engine is there."""
    scaled(folder / "m.onnx")
    settings = "batch { max = 4 }, warmup = on, engine { sizes { K = [8, 16, 64] } }"
    body = "y, z = m(x)\n    return y = y, z = z"
    path = folder / "p.pipe"
    path.write_text(PIPE.format(signature=SCALED, body=body, settings=settings, batch=""))
    plan, x = headrace.compile(path).plan, np.arange(8, dtype=np.float32)
    for _ in range(2):
        with served(plan, folder) as engine:
            waiting = [engine.submit(Request("p", {"x": x + number})) for number in range(16)]
            for number, one in enumerate(waiting):
                y, z = map(np.asarray, one.result().outputs.values())
                assert np.array_equal(y, (x + number) * 3)
                assert np.array_equal(z, (x + number) * 1.5)


def ocr(folder: Path) -> None:
    """Read a page by three engines, as ONNX Runtime reads it on the processor."""
    source = folder / "ocr.pipe"
    for name in ("ocr.py", "ocr.pipe"):
        (folder / name).write_text((OCR / name).read_text("utf-8"), "utf-8")
    with headrace.load(headrace.compile(source, schedule="default")) as app:
        photo = (OCR / "pages" / "sign.png").read_bytes()
        wanted = app.ocr(photo=photo)
    text = source.read_text("utf-8") + OCR_SCHEDULE.replace("tensorrt_rtx", "tensorrt")
    source.write_text(text, "utf-8")
    plan = headrace.compile(source, schedule="rtx").plan
    with served(plan, folder) as engine:
        found = engine.submit(Request("ocr", {"photo": photo})).result().outputs
    assert list(np.asarray(found["text"])) == wanted.text.tolist()
    assert np.array_equal(np.asarray(found["box"]), wanted.box)
    assert np.allclose(np.asarray(found["score"]), wanted.score, rtol=0, atol=1e-5)


@contextmanager
def served(plan: Plan, folder: Path) -> Generator[Engine]:
    """Lend an engine for a plan; its device gets back all memory."""
    device = Gpu0()
    config = EngineConfig(workers=2, devices=(device,), engines=folder / "engines")
    with closing(Engine(plan, config)) as engine:
        yield engine
    assert device.ledger.syncs
    device.close()


def main(folder: Path, version: str, what: str) -> None:
    assert find_gpu(0) is None, "there is a driver already"
    load_driver(folder)
    assert find_gpu(0) == Gpu("NVIDIA Said", 87, 13010)
    assert find_gpu(1) is None
    package: Any = stand_in(version)
    sys.modules["tensorrt"] = package
    {"small": small, "ocr": ocr}[what](folder)
    built = package.calls.count("Builder.build_serialized_network")
    print(f"answered, {built} built")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
