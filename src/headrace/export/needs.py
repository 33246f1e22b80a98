"""What has to be installed where a plan runs: extras of ours, and what its stages import."""

import ast
import sys
from collections.abc import Iterator
from typing import Final

from ..compiler.plan import ModelSegment, OpSegment, Plan, PythonSegment

_FAMILIES: Final = {"audio": ("soundfile", "soxr"), "image": ("cv2",), "text": ("tokenizers",)}
"""Of ops that need the extra of their name: the modules that it brings."""
_BACKENDS: Final = ("litert", "openvino", "tensorflow", "torch")  # likewise, of models
_BROUGHT: Final = {"headrace", "numpy"}


def extras_of(plan: Plan) -> set[str]:
    """Return the extras of headrace that its ops and models need, but for that of ONNX Runtime."""
    families = {one.op.partition(".")[0] for one in plan.segments if isinstance(one, OpSegment)}
    backends = {one.backend for one in plan.segments if isinstance(one, ModelSegment)}
    return (families & {*_FAMILIES}) | (backends & {*_BACKENDS})


def on_gpu(plan: Plan) -> list[str]:
    """Return the stages that run on a GPU."""
    found = [one for one in plan.segments if isinstance(one, ModelSegment)]
    return sorted({one.name for one in found if one.device.partition(":")[0] == "gpu"})


def imports_of(plan: Plan) -> set[str]:
    """Return the modules that Python stages import, and neither Python nor headrace brings."""
    sources = {one.source for one in plan.segments if isinstance(one, PythonSegment)}
    contents = [content for digest, content in plan.blobs if digest in sources]
    found = {module for content in contents for module in _imported(content)}
    brought = {module for extra in extras_of(plan) for module in _FAMILIES.get(extra, ())}
    return found - _BROUGHT - brought - sys.stdlib_module_names


def _imported(source: bytes) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (one.name.partition(".")[0] for one in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
            case _:
                pass
