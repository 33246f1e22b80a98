"""Pipelines beside Triton's own ways to write them: an ensemble, BLS, Python around a model.

    steps     three functions in Python      Triton: an ensemble of three Python models
    cascade   a quick model, and an exact    Triton: a BLS model that asks two others
              one for what that doubts
    glue      Python, ONNX, Python           Triton: an ensemble of three models

Ours is `headrace run` with its default flags, with `--processes 2`, and for gRPC with the native
carrier too; and, for who moves nothing over, Triton's own repository served by `headrace run
--model-repository`, with its Python models in processes of their own and in the server's, each
from one process, over HTTP from two, and over gRPC with the native carrier. Triton is that of
nvidia-pytriton, which has the Python backend alone: there a Python model runs ONNX models, which
takes the requests that meet as one batch. Its models batch as they come; its BLS model has four
instances, for it only waits. Both have the same arithmetic, and answer the same before they are
timed, in turns.

Fails where pipelines of ours have less than twice the requests a second, or alone a longer median.
Over HTTP two processes are held to that, for a tritonserver takes all cores too; over gRPC the
native carrier is, which does. One process, and gRPC's default carrier, stand beside them. Two are
no faster over gRPC here: all is asked on one connection, which one process has. The repository is
not held to it: its models are what Triton's are.
"""

import shutil
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
from harness import keep, options
from onnx import ModelProto, TensorProto, helper, numpy_helper
from wire_calls import grpc_infer, http_infer
from wire_models import Asked
from wire_peers import HERE, NATIVE, TWO, Missing, native, ours, told_by, tritonserver, two
from wire_process import Server, started
from wire_throughput import Figure, Subject, measure, table

WIDTH, SIDE, CLASSES, POINTS = 64, 32, 10, 8
IN_FLIGHT = (1, 8, 32)

PIPES = f"""
model quick = onnx "quick.onnx" (x: f32[2]) -> (p: f32[2])
model exact = onnx "exact.onnx" (x: f32[2]) -> (p: f32[2])
model net = onnx "net.onnx" (x: f32[3, {SIDE}, {SIDE}]) -> (logits: f32[{CLASSES}])

fn center(x: f32[{WIDTH}]) -> (y: f32[{WIDTH}]) = python "stages.py:center" pure
fn scale(x: f32[{WIDTH}]) -> (y: f32[{WIDTH}]) = python "stages.py:scale" pure
fn squash(x: f32[{WIDTH}]) -> (y: f32[{WIDTH}]) = python "stages.py:squash" pure
fn prepare(image: u8[{SIDE}, {SIDE}, 3]) -> (x: f32[3, {SIDE}, {SIDE}])
    = python "stages.py:prepare" pure
fn finish(logits: f32[{CLASSES}]) -> (p: f32[{CLASSES}]) = python "stages.py:finish" pure

pipeline steps(x: f32[{WIDTH}]) -> (y: f32[{WIDTH}]) batch 32 {{
    return y = squash(scale(center(x)))
}}

pipeline cascade(points: f32[2]) -> (p: f32[2]) batch 32 {{
    p = quick(points)
    return p = if max(p) < 0.9 {{ exact(points) }} else {{ p }}
}}

pipeline glue(image: u8[{SIDE}, {SIDE}, 3]) -> (p: f32[{CLASSES}]) batch 32 {{
    return p = finish(net(prepare(image)))
}}
"""

STAGES = '''"""The steps of triton_steps.py, for one item."""

import numpy as np


def center(x):
    return x - x.mean()


def scale(x):
    return x / (np.abs(x).max() + np.float32(1e-6))


def squash(x):
    return np.tanh(x)


def prepare(image):
    x = (image.astype(np.float32) - np.float32(127.5)) / np.float32(127.5)
    return np.ascontiguousarray(x.transpose(2, 0, 1))


def finish(logits):
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()
'''

_BATCHED = "max_batch_size: 32 dynamic_batching { } instance_group { kind: KIND_CPU count: 1 }"
_VECTOR = (f"TYPE_FP32 dims: [{WIDTH}]",) * 2
_IMAGE = f"TYPE_UINT8 dims: [{SIDE}, {SIDE}, 3]"
_PIXELS = f"TYPE_FP32 dims: [3, {SIDE}, {SIDE}]"
_CLASSES = f"TYPE_FP32 dims: [{CLASSES}]"
_PAIR = ("TYPE_FP32 dims: [2]",) * 2
_MODELS = {
    "center": ("x", "y", *_VECTOR),
    "scale": ("x", "y", *_VECTOR),
    "squash": ("x", "y", *_VECTOR),
    "prepare": ("image", "x", _IMAGE, _PIXELS),
    "net": ("x", "logits", _PIXELS, _CLASSES),
    "finish": ("logits", "p", _CLASSES, _CLASSES),
    "quick": ("x", "p", *_PAIR),
    "exact": ("x", "p", *_PAIR),
}
"""Triton's models: the names of input and output, and what they are."""
_ENSEMBLES = {
    "steps": ("center", "scale", "squash"),
    "glue": ("prepare", "net", "finish"),
}


def write_pipes(folder: Path) -> None:
    """Write what ours serves."""
    sys.path.append(str(HERE.parent / "examples" / "cascade"))
    import make_models  # type: ignore[import-not-found] it is an example, on no path

    for name, model in (("quick", make_models.quick()), ("exact", make_models.exact())):
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
    (folder / "net.onnx").write_bytes(_net().SerializeToString())
    (folder / "stages.py").write_text(STAGES)
    (folder / "wire.pipe").write_text(PIPES)


def write_repository(folder: Path) -> Path:
    """Write what Triton serves."""
    served = folder / "triton"
    steps = (HERE / "peers" / "triton_steps.py").read_text()
    onnx = files("headrace.export.triton").joinpath("onnx_model.py").read_text()
    for name, (taken, given, wants, gives) in _MODELS.items():
        version = served / name / "1"
        version.mkdir(parents=True)
        model = folder / f"{name}.onnx"
        if model.exists():
            (version / "model.onnx").symlink_to(model)
        (version / "model.py").write_text(onnx if model.exists() else steps)
        tensors = f"{_tensor('input', taken, wants)} {_tensor('output', given, gives)}"
        _configure(served, name, f'backend: "python" {_BATCHED} {tensors}')
    for name, members in _ENSEMBLES.items():
        first, last = _MODELS[members[0]], _MODELS[members[-1]]
        tensors = f"{_tensor('input', first[0], first[2])} {_tensor('output', last[1], last[3])}"
        found = [_step(number, one, members) for number, one in enumerate(members)]
        scheduling = f"ensemble_scheduling {{ {' '.join(found)} }}"
        (served / name / "1").mkdir(parents=True)
        _configure(served, name, f'platform: "ensemble" max_batch_size: 32 {tensors} {scheduling}')
    (served / "cascade" / "1").mkdir(parents=True)
    (served / "cascade" / "1" / "model.py").write_text(steps)
    points = "TYPE_FP32 dims: [-1, 2]"
    tensors = f"{_tensor('input', 'points', points)} {_tensor('output', 'p', points)}"
    instances = "instance_group { kind: KIND_CPU count: 4 }"
    _configure(served, "cascade", f'backend: "python" max_batch_size: 0 {instances} {tensors}')
    return served


def _tensor(kind: str, name: str, what: str) -> str:
    return f'{kind} {{ name: "{name}" data_type: {what} }}'


def _step(number: int, name: str, members: Sequence[str]) -> str:
    """Return a step of an ensemble, between values named by their number."""
    taken, given, *_ = _MODELS[name]
    first, last = number == 0, number == len(members) - 1
    source = taken if first else f"value_{number}"
    target = given if last else f"value_{number + 1}"
    maps = f'input_map {{ key: "{taken}" value: "{source}" }}'
    maps += f' output_map {{ key: "{given}" value: "{target}" }}'
    return f'step {{ model_name: "{name}" model_version: -1 {maps} }}'


def _configure(served: Path, name: str, text: str) -> None:
    (served / name / "config.pbtxt").write_text(f'name: "{name}" {text}\n')


def _net() -> ModelProto:
    """Return a layer of 16 filters, their means, and a layer of classes."""
    random = np.random.default_rng(3)
    weights = {
        "filters": random.normal(0, 0.2, (16, 3, 3, 3)),
        "classes": random.normal(0, 1, (16, CLASSES)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "filters"], ["maps"], strides=[2, 2]),
        helper.make_node("Relu", ["maps"], ["active"]),
        helper.make_node("ReduceMean", ["active"], ["means"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["means", "classes"], ["logits"]),
    ]
    constants = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in weights.items()]
    kind = TensorProto.FLOAT
    x = helper.make_tensor_value_info("x", kind, ["B", 3, SIDE, SIDE])
    logits = helper.make_tensor_value_info("logits", kind, ["B", CLASSES])
    graph = helper.make_graph(nodes, "net", [x], [logits], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def asked(folder: Path) -> list[Asked]:
    """Return a request for each pipeline, and the answer that ours gives when it is embedded."""
    import headrace

    random = np.random.default_rng(7)
    angle = np.linspace(0, 2 * np.pi, POINTS, endpoint=False)
    far = np.where(np.arange(POINTS) % 2, 1.5, 0.7)  # of every other `quick` is not sure
    points = np.stack([far * np.cos(angle), far * np.sin(angle)], 1).astype(np.float32)
    inputs = {
        "steps": ("x", "y", random.normal(size=(1, WIDTH)).astype(np.float32)),
        "cascade": ("points", "p", points),
        "glue": ("image", "p", random.integers(0, 256, (1, SIDE, SIDE, 3), np.uint8)),
    }
    with headrace.load(folder / "wire.pipe") as app:
        return [
            Asked(name, {taken: value}, {given: np.asarray(app[name](**{taken: value})[0])})
            for name, (taken, given, value) in inputs.items()
        ]


_IN_PROCESS: Final = ("--backend-config", "python,in-process=true")
_TWO: Final = ("--processes", "2")
_NATIVE: Final = ("--grpc-carrier", "pygrpc-native")
REPOSITORIES: Final[Mapping[str, tuple[str, ...]]] = {
    "repository": (),
    "repository, 2 processes": _TWO,
    "repository, native": _NATIVE,
    "repository, in process": _IN_PROCESS,
    "repository, in process, 2 processes": (*_IN_PROCESS, *_TWO),
    "repository, in process, native": (*_IN_PROCESS, *_NATIVE),
}
"""How ours serves Triton's repository, as it is: the flags by what each is called."""


@contextmanager
def repository(name: str, served: Path, folder: Path) -> Generator[Server, None, None]:
    """Serve Triton's repository with ours, over the protocol that the flags are about, or both."""
    flags = REPOSITORIES[name]
    command = [sys.executable, "-m", "headrace.cli", "run", "--model-repository", str(served)]
    command += ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", *flags]
    with started(command, folder / f"{name}.log") as process:
        http = told_by(process, r"http://(127\.0\.0\.1:\d+)")
        grpc = told_by(process, r"grpc://(127\.0\.0\.1:\d+)")
        yield Server(
            name,
            version("headrace"),
            process.pid,
            None if _NATIVE[0] in flags else http,
            None if _TWO[0] in flags else grpc,
        )


def subjects(requests: Sequence[Asked], servers: Sequence[Server]) -> list[Subject]:
    found: list[Subject] = []
    for request in requests:
        for in_flight in IN_FLIGHT:
            for protocol, call in (("http", http_infer(request)), ("grpc", grpc_infer(request))):
                able = [one for one in servers if getattr(one, protocol) is not None]
                calls = MappingProxyType({server.name: call for server in able})
                name = f"{request.model}, {protocol}, {in_flight}"
                found.append(Subject(name, calls, in_flight))
    return found


def held(figures: Sequence[Figure]) -> list[tuple[str, bool]]:
    """Return what is to hold of each subject, in words, and whether it does."""
    found = {(figure.subject, figure.server): figure.of_ours for figure in figures}
    told: list[tuple[str, bool]] = []
    for (subject, server), theirs in found.items():
        if server != "Triton":
            continue
        name = NATIVE if "grpc" in subject else TWO
        mine = found[subject, name]
        times = mine.rate / theirs.rate
        told.append((f"{subject}: {name} {times:.1f} x the requests a second", times >= 2))
        if subject.endswith(", 1"):
            share = mine.median / theirs.median
            told.append((f"{subject}: {name} {share:.2f} x the median time", share <= 1))
    return told


def main() -> None:
    parser = options("Pipelines beside Triton's ensembles and BLS.", rounds=3)
    parser.add_argument("--only", default="", help="subjects with this in their name")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headrace-triton-"))
    write_pipes(folder)
    with ExitStack() as stack:
        served = write_repository(folder)
        try:
            peer = stack.enter_context(tritonserver(served, folder))
        except Missing as missing:
            sys.exit(f"Triton is left out: {missing}")
        mine = [stack.enter_context(serve(folder)) for serve in (ours, two, native)]
        mine += [stack.enter_context(repository(one, served, folder)) for one in REPOSITORIES]
        servers = [*mine, peer]
        by_name = {server.name: server for server in servers}
        figures = [
            figure
            for subject in subjects(asked(folder), servers)
            if given.only in subject.name
            for figure in measure(subject, by_name, given.rounds)
        ]
    shutil.rmtree(folder)  # of a run that fails the servers' logs stay
    limits = held(figures)
    notes = [", ".join(f"{server.name} {server.version}" for server in servers)]
    notes += [f"{'holds' if ok else 'FAILS'}: {text}" for text, ok in limits]
    text = "\n".join([table(figures), "", *notes])
    print(text)
    if not given.only:
        keep("triton_peer", text, {"notes": notes, "figures": [asdict(one) for one in figures]})
    if not all(ok for _, ok in limits):
        sys.exit(1)


if __name__ == "__main__":
    main()
