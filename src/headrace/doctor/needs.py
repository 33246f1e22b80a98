"""What a plan lacks on this machine, found without loading it."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from ..compiler.plan import ENGINES, PROVIDED, ModelSegment, OpSegment, Plan
from ..compiler.target import load_target
from ..export.needs import extras_of, imports_of
from ..runtime.backend import find_backend
from ..runtime.load_error import LoadError
from ..runtime.onnx_library import owners
from ..runtime.tensorrt.package import open_package
from .extras import Extra
from .findings import Finding
from .machine import Machine


def lacking(plan: Plan, machine: Machine, extras: Sequence[Extra]) -> Iterator[Finding]:
    """Yield what has to be there before the plan can be loaded."""
    if plan.target:
        target = load_target(plan.target)
        if target.machine != machine.machine:
            message = f"the plan was compiled for `{target.name}`, which is {target.machine}"
            yield Finding(f"{message}, and this machine is {machine.machine}")
    needed = extras_of(plan)
    for extra in extras:
        if extra.name in needed and extra.missing:
            names = ", ".join(one.name for one in extra.missing)
            yield Finding(
                f"the plan needs {names}, which is not installed",
                f"pip install 'headrace[{extra.name}]'",
            )
    backends = {one.backend for one in plan.segments}
    gpu = any(device.startswith("gpu") for device in _devices(plan))
    if backends & {"onnx", *PROVIDED} and not owners():
        message = "the plan has ONNX models, and ONNX Runtime is not installed"
        yield Finding(message, f"pip install 'headrace[{'gpu' if gpu else 'cpu'}]'")
    if gpu and find_spec("cupy") is None:
        message = "the plan keeps values in a GPU's memory, which needs CuPy: it is not installed"
        yield Finding(message, "pip install 'headrace[gpu]'")
    for name in sorted(backends):
        try:
            find_backend(name)
            if name in ENGINES:
                open_package(name)
        except LoadError as error:
            yield Finding(error.message, error.help or "")
    for device in sorted(_devices(plan)):
        kind, _, index = device.partition(":")
        if kind == "gpu" and int(index) >= len(machine.gpus):
            found = len(machine.gpus) or "no"
            yield Finding(
                f"the plan asks for {device}, and there {'is' if found == 1 else 'are'} {found} "
                f"GPU{'' if found == 1 else 's'}",
                "compile it with a schedule whose devices are here",
            )
    for module in sorted(imports_of(plan)):
        if find_spec(module) is None:
            yield Finding(f"a Python stage imports `{module}`, which is not installed")


def _devices(plan: Plan) -> set[str]:
    return {
        one.device
        for one in plan.segments
        if isinstance(one, ModelSegment)
        or (not isinstance(one, OpSegment) and hasattr(one, "device"))
    }
