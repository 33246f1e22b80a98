"""All files of a bundle for a board."""

from importlib.resources import files
from typing import Final

from jinja2 import Environment, StrictUndefined

from ...compiler import plan_file
from ...compiler.plan import ENGINES, Plan
from ...compiler.target import load_target
from ...version import VERSION
from ..needs import extras_of, imports_of, on_gpu
from ..target import Export, ExportError, Subject
from .release import RELEASES, Release

_MACHINE: Final = "aarch64"
_UNKNOWN: Final = {"tensorflow": "TensorFlow", "torch": "PyTorch"}
"""Extras whose packages are not pinned: builds for boards are NVIDIA's, or bring another CUDA."""

_RTX: Final = ("tensorrt_rtx", "onnx_tensorrt_rtx")

_TEMPLATES: Final = ("README.md", "Containerfile", "first_start.py")


def make(subject: Subject) -> Export:
    """Return the bundle for the release of JetPack that is asked for."""
    plan, release = subject.plan, RELEASES[subject.options["jetpack"]]
    _require_board(plan, release)
    extras, gpu = extras_of(plan), on_gpu(plan)
    if unknown := [library for extra, library in _UNKNOWN.items() if extra in extras]:
        raise ExportError(
            f"a model of the plan needs {' and '.join(unknown)}, of which no wheel for JetPack "
            f"{release.name} is known",
            "make an ONNX model of it, or serve it elsewhere and name it as `remote`",
        )
    engines = _engines(plan)
    if engines and not release.own:
        raise ExportError(
            f"`{engines[0]}` runs on TensorRT, whose bindings of JetPack {release.name} are for "
            f"another Python than {release.python}",
            "leave `backend` out, so that ONNX Runtime runs it, or export for `--jetpack 7.2`",
        )
    if rtx := [one.name for one in plan.segments if one.backend in _RTX]:
        raise ExportError(
            f"`{rtx[0]}` runs on TensorRT for RTX, which is not for the GPUs of boards",
            "name `backend = tensorrt`, or leave `backend` out, so that ONNX Runtime runs it",
        )
    others = sorted(imports_of(plan))
    name = _service_name(subject.name)
    words: dict[str, object] = {
        "name": name,
        "release": release,
        "version": VERSION,
        "gpu": gpu,
        "engines": engines,
        "keeps": bool(engines) or any(one.backend == "kernel" for one in plan.segments),
        "others": others,
    }
    contents = {file: _filled(f"{file}.j2", words) for file in _TEMPLATES}
    contents[f"{name}.service"] = _filled("unit.service.j2", words)
    contents["constraints.txt"] = _filled(f"constraints-{release.name}.txt.j2", words)
    contents["requirements.txt"] = _requirements(release, extras, gpu, others)
    contents["wheels/README.md"] = _filled("wheels.md.j2", words)
    written = {file: text.encode() for file, text in contents.items()}
    return Export(
        written | {f"{name}.plan": plan_file.to_bytes(plan)},
        tuple(_notes(release, gpu, engines, others)),
    )


def _require_board(plan: Plan, release: Release) -> None:
    """Raise ExportError where a plan was compiled for what is no board of a release."""
    if not plan.target:
        return
    target = load_target(plan.target)
    if target.machine != _MACHINE or any(gpu.sm not in release.sms for gpu in target.gpus):
        raise ExportError(
            f"the plan was compiled for `{target.name}` ({target.summary}), and JetPack "
            f"{release.name} is for {release.boards}",
            "compile it for the board, or name the board's `--jetpack`",
        )


def _requirements(release: Release, extras: set[str], gpu: list[str], others: list[str]) -> str:
    lines = [f"headrace[{','.join(sorted(extras | {'cli', 'server'}))}]=={VERSION}"]
    lines += ["onnxruntime-gpu", release.cupy] if gpu else ["onnxruntime"]
    lines += [f"# what gives `{module}`, which Python stages import" for module in others]
    return "\n".join(lines) + "\n"


def _notes(release: Release, gpu: list[str], engines: list[str], others: list[str]) -> list[str]:
    found = [f"for JetPack {release.name} (Python {release.python}, CUDA {release.cuda})"]
    found.append(f"put the wheel of headrace {VERSION} into wheels/")
    if gpu:
        found.append(
            f"{_run(gpu)} on the GPU: put a wheel of onnxruntime-gpu for Python "
            f"{release.python} and CUDA {release.cuda} into wheels/; PyPI has none with code for "
            "Jetson's GPUs"
        )
    if engines:
        found.append(
            f"{_run(engines)} on TensorRT, of which python3-libnvinfer of JetPack has the bindings"
        )
    if gpu and release.own:
        found.append(
            f"{release.image} has nothing of NVIDIA: name in Containerfile where CUDA "
            f"{release.cuda}, cuDNN{' and TensorRT' if engines else ''} come from"
        )
    if others:
        found.append(f"name in requirements.txt what gives {', '.join(others)}")
    return found


def _run(stages: list[str]) -> str:
    return f"{', '.join(stages)} {'runs' if len(stages) == 1 else 'run'}"


def _engines(plan: Plan) -> list[str]:
    """Return the stages of which TensorRT builds engines on the board."""
    return [one.name for one in plan.segments if one.backend in ENGINES]


def _service_name(stem: str) -> str:
    """Return a stem as names of files, containers and units may be."""
    return "".join(one if one.isascii() and one.isalnum() else "-" for one in stem) or "headrace"


def _filled(template: str, words: dict[str, object]) -> str:
    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    text = files(__spec__.parent).joinpath(template).read_text("utf-8")
    return environment.from_string(text).render(words)
