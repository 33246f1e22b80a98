"""Python functions, and classes made once per instance, from sources that travel in the plan.

A source becomes a module once per plan; tracebacks show its lines because linecache is told of
them.
"""

import linecache
import sys
from collections.abc import Callable
from types import ModuleType

from ...compiler.plan import PythonSegment
from ..backend import Backend, Loading
from ..context import packing
from ..division import Share
from ..isolation.pool import Pool
from ..isolation.program import program_of
from ..load_error import BAD_SOURCE, LoadError
from ..python_model import Instances
from ..python_stage import PythonStage, is_interrupt, said
from ..stage import StageError, policy_of


def open_python(
    segment: PythonSegment, index: int, _share: Share | None, loading: Loading
) -> PythonStage:
    """Return the stage of a function or class; raises LoadError where its source has none."""
    try:
        function = _function(segment, loading)
    except StageError as error:
        message = f"stage `{segment.name}`, {segment.place}: {error.message}"
        raise LoadError(BAD_SOURCE, message) from error.__cause__
    return PythonStage(segment, function, policy_of(segment), index)


def _function(segment: PythonSegment, loading: Loading) -> Callable[..., object]:
    """Return what the stage calls: where `service.isolation` is set, something that asks a
    worker process; else what the source defines, or the instances of it."""
    if segment.service.isolation is not None:
        pool = Pool(program_of(segment, loading.blobs), segment.instances or 1)
        outside = loading.outside(pool, segment.name)
        return packing(outside) if segment.told else outside
    sources = loading.shared("python sources", Sources)
    function = sources.function(segment, loading.blobs[segment.source])
    if segment.instances is None:
        return function
    return loading.own(Instances(function, segment.attribute, segment.device, segment.instances))


class Sources:
    """The modules of one engine, by the digest of their source."""

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}

    def function(self, segment: PythonSegment, content: bytes) -> Callable[..., object]:
        """Return a segment's function; raises StageError when the source has none or fails."""
        module = self._modules.get(segment.source)
        if module is None:
            module = self._modules[segment.source] = _load(segment, content, id(self))
        function = getattr(module, segment.attribute, None)
        if not callable(function):
            what = "function" if segment.instances is None else "class"
            raise StageError(f"{segment.file} defines no {what} `{segment.attribute}`")
        return function

    def close(self) -> None:
        """Forget the modules."""
        for module in self._modules.values():
            sys.modules.pop(module.__name__, None)
        self._modules.clear()


def _load(segment: PythonSegment, content: bytes, owner: int) -> ModuleType:
    text = content.decode()
    lines = text.splitlines(keepends=True)
    linecache.cache[segment.file] = (len(text), None, lines, segment.file)
    module = ModuleType(f"headrace_source_{owner}_{segment.source[:12]}")
    module.__file__ = segment.file
    sys.modules[module.__name__] = module  # dataclasses and pickle look their module up by name
    try:
        exec(compile(text, segment.file, "exec"), module.__dict__)
    except BaseException as error:
        del sys.modules[module.__name__]
        if is_interrupt(error):
            raise
        raise StageError(f"{segment.file} cannot be loaded: {said(error)}") from error
    return module


BACKEND = Backend(open_python)
