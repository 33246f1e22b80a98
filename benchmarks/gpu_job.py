"""Everything that a GPU is to be asked, in one run of less than six minutes.

    python benchmarks/gpu_job.py                  # on gpu(0); says so and ends where there is none
    python benchmarks/gpu_job.py --device sim     # rehearses what needs no CUDA

Sections do not need each other; what has been found is written after each, so that a run which is
cut short leaves what it had. Residency is counted twice: by our ledger, and by CUDA's own profiler
(through torch.profiler, where torch is) which sees every copy in the process, whoever asks for it.
`--keep` puts the figures under results/, by the device's name, with driver and date.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import onnx
from harness import RESULTS, Contender, duration, machine, measure, table
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from headrace.compiler import compile_source
from headrace.compiler.plan import Plan
from headrace.dsl.source import Source
from headrace.runtime.devices import open_device
from headrace.runtime.devices.device import Device
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.load_error import LoadError
from headrace.runtime.request import Request

Found: TypeAlias = dict[str, object]
CHANNELS, LINKS = 32, 3
ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Job:
    """Where it runs: `written` is the device as a schedule has it. `folder` holds the models, of
    pictures of `side` by `side`."""

    device: Device
    written: str
    folder: Path
    rounds: int
    side: int

    @property
    def is_gpu(self) -> bool:
        return self.device.name.startswith("gpu")


class Skipped(Exception):
    """A section has nothing to ask here."""


# ---- what is run


def link(seed: int, side: int) -> onnx.ModelProto:
    """Return a convolution and a ReLU, which keep the shape."""
    random = np.random.default_rng(seed)
    weight = (random.standard_normal((CHANNELS, CHANNELS, 3, 3)) * 0.06).astype(np.float32)
    shape = ["B", CHANNELS, side, side]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "link",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain(job: Job, body: str, schedule: str, *, fuse: bool = True) -> Plan:
    """Return the plan of a pipeline over the links, all on the job's device."""
    item = f"f32[{CHANNELS}, {job.side}, {job.side}]"
    models = [
        f'model link{n} = onnx "link{n}.onnx" (x: {item}) -> (y: {item})\n' for n in range(LINKS)
    ]
    text = (
        f"{''.join(models)}\npipeline chain(x: {item}) -> (y: {item}) {{\n    {body}\n}}\n\n"
        f"schedule chain {{\n    device = {job.written}\n    {schedule}\n}}\n"
    )
    path = job.folder / "chain.pipe"
    return compile_source(Source(path.name, text, path), optimise=fuse)


CALLS: Final = "return y = link2(link1(link0(x)))"
GLUED: Final = "a = link0(x)\n    b = (a * 0.5 + 0.25) * (a - 1.0)\n    return y = link2(link1(b))"


def engine_of(job: Job, plan: Plan, workers: int = 1) -> Engine:
    return Engine(plan, EngineConfig(workers=workers, devices=(job.device,)))


def value(job: Job) -> NDArray[np.float32]:
    shape = (CHANNELS, job.side, job.side)
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def on_host(job: Job, body: str) -> NDArray[Any]:  # Any: as it comes
    """Return what the chain gives on the host's processor."""
    plan = chain(replace(job, written="cpu"), body, "")
    engine = Engine(plan, EngineConfig(workers=1))
    try:
        return np.asarray(engine.call(Request("chain", {"x": value(job)})).outputs["y"])
    finally:
        engine.close()


# ---- sections


def what(job: Job) -> Found:
    """What the device is, and what it was found to be able to do."""
    return {"device": job.device.name, **asdict(job.device.capabilities), **_driver()}


def _driver() -> Found:
    from headrace.runtime.devices.cuda_driver import find_gpu

    gpu = find_gpu(0)
    return {} if gpu is None else {"driver": gpu.driver}


def suite(job: Job) -> Found:
    """The tests that need a GPU."""
    if not job.is_gpu:
        raise Skipped("the tests of GPUs need one")
    words = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-m", "gpu", "tests"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
    last = done.stdout.strip().splitlines()[-1:]
    if done.returncode:
        raise RuntimeError("\n".join(done.stdout.splitlines()[-40:]))
    return {"said": " ".join(last)}


def residency(job: Job) -> Found:
    """Copies of a request through three models, by our ledger and by the profiler."""
    found: Found = {}
    ways = (
        ("fused", True, CALLS),
        ("unfused", False, CALLS),
        ("glued", True, GLUED),
    )
    for name, fuse, body in ways:
        engine = engine_of(job, chain(job, body, "", fuse=fuse))
        request = Request("chain", {"x": value(job)})
        answer = np.asarray(engine.call(request).outputs["y"])
        before = job.device.ledger
        counted = memcpys(lambda: engine.call(request), job)  # noqa: B023 it is called at once
        after = job.device.ledger
        own = (after.h2d - before.h2d, after.d2h - before.d2h, after.d2d - before.d2d)
        if own != (1, 1, 0):
            raise RuntimeError(f"{name}: {own} copies in, out and within were made, not (1, 1, 0)")
        if counted is not None and counted != own:
            raise RuntimeError(f"{name}: the ledger has {own} copies, the profiler {counted}")
        np.testing.assert_allclose(answer, on_host(job, body), rtol=2e-3, atol=2e-3)
        found[name] = {"ledger": own, "profiler": counted or "torch is not installed"}
        engine.close()
    return found


def memcpys(run: Callable[[], object], job: Job) -> tuple[int, int, int] | None:
    """Return the copies in, out and within that CUDA's profiler sees while something runs."""
    if not job.is_gpu or find_spec("torch") is None:
        run()
        return None
    import torch  # pyright: ignore[reportMissingImports]
    from torch.profiler import (  # pyright: ignore[reportMissingImports]
        ProfilerActivity,
        profile,
    )

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        run()
        torch.cuda.synchronize()
    names = [str(event.name) for event in seen.events() or ()]
    ways = ("HtoD", "DtoH", "DtoD")
    inward, outward, within = (
        sum(name.startswith("Memcpy") and way in name for name in names) for way in ways
    )
    return inward, outward, within


def fused(job: Job) -> Found:
    """One model made of three against the three, all values on the device."""
    engines = [engine_of(job, chain(job, CALLS, "", fuse=fuse)) for fuse in (True, False)]
    found = race(job, "fused", [("fused", engines[0]), ("three models", engines[1])])
    for engine in engines:
        engine.close()
    return found


def race(job: Job, subject: str, engines: Sequence[tuple[str, Engine]]) -> Found:
    request = Request("chain", {"x": value(job)})
    contenders = [Contender(name, lambda e=one: e.call(request)) for name, one in engines]
    outcome = measure(subject, contenders, rounds=job.rounds, calls=5, warmup=3)
    print(table([outcome]))
    return {"outcome": asdict(outcome)}


def through_host(job: Job) -> Found:
    """Three models whose values stay on the device, against the same with the host between."""
    resident = engine_of(job, chain(job, CALLS, "", fuse=False))
    parts = [engine_of(job, chain(job, f"return y = link{n}(x)", "")) for n in range(LINKS)]

    def hop() -> object:
        x: object = value_
        for part in parts:
            x = part.call(Request("chain", {"x": x})).outputs["y"]  # type: ignore[dict-item]
        return x

    value_ = value(job)
    request = Request("chain", {"x": value_})
    contenders = [
        Contender("stays", lambda: resident.call(request)),
        Contender("through the host", hop),
    ]
    outcome = measure("three models", contenders, rounds=job.rounds, calls=5, warmup=3)
    print(table([outcome]))
    for engine in (resident, *parts):
        engine.close()
    return {"outcome": asdict(outcome)}


def batches(job: Job) -> Found:
    """Requests a second, alone and with company."""
    found: Found = {}
    for size in (1, 8, 32):
        schedule = f"link0 {{ batch {{ max = {size} }} }}, link1 {{ batch {{ max = {size} }} }}, "
        schedule += f"link2 {{ batch {{ max = {size} }} }}"
        engine = engine_of(job, chain(job, CALLS, schedule), workers=4)
        request = Request("chain", {"x": value(job)})
        [one.result(60) for one in [engine.submit(request) for _ in range(size)]]
        count, start = max(16, 2 * size), time.perf_counter()
        [one.result(60) for one in [engine.submit(request) for _ in range(count)]]
        found[f"up to {size}"] = round(count / (time.perf_counter() - start), 1)
        engine.close()
    return found


def graphs(job: Job) -> Found:
    """Twenty small kernels one by one, and captured."""
    if not job.is_gpu:
        raise Skipped("graphs are CUDA's")
    import cupy  # pyright: ignore[reportMissingImports]

    from headrace.runtime.devices.gpu import GpuDevice

    device = job.device
    assert isinstance(device, GpuDevice)
    stream = device.stream()
    view = device.zeros((1 << 16,), np.dtype(np.float32), "graphs", stream)
    step: Any = cupy.ElementwiseKernel("float32 x", "float32 y", "y = x * 0.5f + 1.0f", "step")

    def twenty() -> None:
        with device.on(stream):
            array = device.tensor(device.address(view), view.shape, view.dtype)
            for _ in range(20):
                step(array, array)

    twenty()
    stream.record().synchronize()
    graph = device.capture(stream, twenty)

    def eager() -> None:
        twenty()
        stream.record().synchronize()

    def replayed() -> None:
        graph.launch(stream)
        stream.record().synchronize()

    contenders = [Contender("graph", replayed), Contender("eager", eager)]
    outcome = measure("20 kernels", contenders, rounds=job.rounds, calls=20, warmup=3)
    print(table([outcome]))
    return {"outcome": asdict(outcome)}


CHILD: Final = """
import sys, cupy
pointer = cupy.cuda.runtime.ipcOpenMemHandle(bytes.fromhex(sys.argv[1]))
memory = cupy.cuda.UnownedMemory(pointer, 4096, None)
array = cupy.ndarray((1024,), "f4", memptr=cupy.cuda.MemoryPointer(memory, 0))
print(float(array[0]))
array[...] = 9
cupy.cuda.Device().synchronize()
cupy.cuda.runtime.ipcCloseMemHandle(pointer)
"""


def shared_memory(job: Job) -> Found:
    """A block of the device that another process reads and writes."""
    if not job.is_gpu or not job.device.capabilities.ipc:
        raise Skipped("this device gives no other process its memory")
    import cupy  # pyright: ignore[reportMissingImports]

    memory: Any = cupy.cuda.Memory(4096)
    array: Any = cupy.ndarray((1024,), "f4", memptr=cupy.cuda.MemoryPointer(memory, 0))
    array[...] = 5
    cupy.cuda.Device().synchronize()
    handle = bytes(cupy.cuda.runtime.ipcGetMemHandle(memory.ptr)).hex()
    words = [sys.executable, "-c", CHILD, handle]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    if (float(done.stdout), float(array[0])) != (5.0, 9.0):
        raise RuntimeError(f"the child saw {done.stdout.strip()}, and left {float(array[0])}")
    return {"seen": float(done.stdout), "left": float(array[0])}


def memory(job: Job) -> Found:
    """What is in use after all this, and whether all of it came back."""
    ledger = job.device.ledger
    if not ledger.balanced:
        raise RuntimeError(f"{ledger.live_bytes} bytes were not given back")
    return asdict(ledger)


SECTIONS: Final = (
    *(what, residency, fused, through_host, batches, graphs, shared_memory, memory, suite),
)


def run(job: Job, budget: float, write: Callable[[Found], None]) -> tuple[Found, list[str]]:
    """Run all sections within `budget` seconds; return what they found, and which failed."""
    start, found, failed = time.monotonic(), Found(), list[str]()
    for section in SECTIONS:
        begun = time.monotonic()
        if begun - start > budget:
            found[section.__name__] = "skipped: no time was left"
            continue
        try:
            found[section.__name__] = section(job)
        except Skipped as skipped:
            found[section.__name__] = f"skipped: {skipped}"
        except Exception as error:
            failed.append(section.__name__)
            told = traceback.format_exc()[-2000:]
            found[section.__name__] = {"error": str(error), "traceback": told}
        spent = duration(time.monotonic() - begun)
        print(f"{section.__name__} ({spent}): {json.dumps(found[section.__name__])[:400]}")
        write(found)
    return found, failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="gpu(0)", help="default gpu(0)")
    parser.add_argument("--budget", type=float, default=330, help="seconds; default 330")
    parser.add_argument("--rounds", type=int, default=15, help="default 15")
    parser.add_argument("--side", type=int, default=224, help="of pictures; default 224")
    parser.add_argument("--out", default=os.environ.get("OUT", "."), help="where to; default $OUT")
    parser.add_argument("--keep", action="store_true", help="keep the figures under results/")
    given = parser.parse_args()
    kind, _, number = given.device.removesuffix(")").partition("(")
    try:
        device = open_device(f"{kind}:{number}" if number else kind)
    except LoadError as error:
        print(f"skipped: {error.message}")
        return
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(LINKS):
            onnx.save(link(seed, given.side), Path(folder) / f"link{seed}.onnx")
        path = Path(given.out) / "gpu_job.json"

        def write(found: Found) -> None:
            path.write_text(json.dumps({"machine": machine(), **found}, indent=2) + "\n")

        job = Job(device, given.device, Path(folder), given.rounds, given.side)
        _, failed = run(job, given.budget, write)
    device.close()
    if given.keep:
        name = re.sub(r"[^a-z0-9]+", "_", device.capabilities.product.lower()).strip("_")
        (RESULTS / f"gpu_{name}.json").write_text(path.read_text())
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
