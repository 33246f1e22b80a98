"""Backends of models: one has to say how a model is opened, and how it is run on arrays.

Rows, batches, padding, queues, sharing between plans and the check of what comes back are the same
for all of them (`instance.py`). A file that defines

    BACKEND = model_backend(open_session, ("kind",))

is a backend: in `backends/`, or in another package that names it in an entry point.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from queue import Empty, SimpleQueue
from types import ModuleType
from typing import Generic, TypeVar

from ..compiler.plan import ModelSegment
from ..dsl.types import DType, Field, OptionalType, TensorType
from .backend import Backend, Loading
from .devices.host import HostDevice
from .division import Share
from .instance import ModelStage
from .load_error import NO_RUNTIME, OTHER_MODEL, LoadError
from .session import Session as Session
from .session import SessionFor
from .stage import policy_of


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output, its batch axis included. A size of None is open; `dims` None: so is the
    rank; `dtype` None: the library has one that the language lacks, or does not say."""

    name: str
    dtype: DType | None
    dims: tuple[int | None, ...] | None

    def __str__(self) -> str:
        dtype = self.dtype.value if self.dtype is not None else "of some dtype"
        if not self.dims:
            return f"{self.name}: {dtype}"
        return f"{self.name}: {dtype}[{', '.join('_' if d is None else str(d) for d in self.dims)}]"


@dataclass(frozen=True, slots=True)
class Model:
    """What a backend opens: the `content` of the plan (`kind` says of what; a folder is an
    archive, see `model_folder.py`), of which `entry` is called; what its declaration says of its
    inputs and outputs; where it is to run, and with how much of the processor."""

    content: bytes
    kind: str
    entry: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    device: str
    share: Share


Open = Callable[[Model], Session | SessionFor]
"""Opens a model; raises LoadError where this machine cannot run it, or it is not as declared."""


def model_backend(open: Open, kinds: tuple[str, ...]) -> Backend:
    """Return the backend of models of some kinds, which it opens as sessions."""

    def open_stage(segment: ModelSegment, index: int, share: Share, loading: Loading) -> ModelStage:
        inputs = ports(segment.input_names, segment.signature.params, segment.input_axes)
        outputs = ports(segment.output_names, segment.signature.results, segment.output_axes)
        rest = (segment.kind, segment.entry, inputs, outputs, segment.device, share)
        try:
            session = loading.shared(
                ("model", segment.backend, segment.model, *rest),
                lambda: open(Model(loading.blobs[segment.model], *rest)),
                by_plans=True,
            )
        except LoadError as error:
            message = f"stage `{segment.name}`, {segment.place}: {error.message}"
            raise LoadError(error.code, message, error.help) from error
        return ModelStage(segment, session, HostDevice(), policy_of(segment), index)

    return Backend(open_stage, kinds)


def ports(
    names: Sequence[str], fields: Sequence[Field], axes: Sequence[int | None]
) -> tuple[Port, ...]:
    """Return the inputs or outputs of a segment, with their batch axes."""
    return tuple(_port(*one) for one in zip(names, fields, axes, strict=True))


def _port(name: str, field: Field, axis: int | None) -> Port:
    kind = field.type.item if isinstance(field.type, OptionalType) else field.type
    if not isinstance(kind, TensorType):
        raise AssertionError(f"`{name}` is no tensor")
    dims = [dim if isinstance(dim, int) else None for dim in kind.dims]
    if axis is not None:
        dims.insert(axis, None)
    return Port(name, kind.dtype, tuple(dims))


def library(module: str, extra: str) -> ModuleType:
    """Return an optional library; raises LoadError naming the extra that brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        absent = isinstance(error, ModuleNotFoundError) and error.name == package
        said = "is not installed" if absent else f"cannot be imported: {error}"
        raise LoadError(
            NO_RUNTIME,
            f"a model needs the Python package that gives `{package}`, which {said}",
            f"pip install 'headrace[{extra}]'",
        ) from error


def pair(
    declared: Sequence[Port], found: Sequence[Port], what: str, owner: str = "file"
) -> list[Port]:
    """Return what the file, or other `owner` of the model, has for each declared input or output
    (`what`): of the same name, or else in order. Raises LoadError where they differ in number,
    dtype, rank or a fixed size."""
    by_name = {one.name: one for one in found}
    names = {one.name for one in declared}
    others = iter([one for one in found if one.name not in names])
    pairs = [by_name.get(one.name) or next(others, None) for one in declared]
    if len(found) != len(declared) or None in pairs:
        plural = "s" * (len(declared) != 1)
        raise _other(
            f"it declares {len(declared)} {what}{plural}, and its {owner} has {len(found)}",
            found,
            owner,
        )
    paired = [one for one in pairs if one is not None]
    for one, other in zip(declared, paired, strict=True):
        if not _agree(one, other):
            told = f"its {what} is declared as {one}, and its {owner} has {other}"
            raise _other(told, found, owner)
    return paired


def _agree(one: Port, other: Port) -> bool:
    text = {DType.STRING, DType.BYTES}
    if other.dtype is not None and one.dtype is not other.dtype and {one.dtype, other.dtype} - text:
        return False
    if one.dims is None or other.dims is None:
        return True
    sizes = zip(one.dims, other.dims, strict=False)
    return len(one.dims) == len(other.dims) and all(a == b or None in (a, b) for a, b in sizes)


def _other(message: str, found: Sequence[Port], owner: str) -> LoadError:
    listed = ", ".join(map(str, found))
    return LoadError(OTHER_MODEL, message, f"declare what the {owner} has: {listed}")


Spare = TypeVar("Spare")


class Spares(Generic[Spare]):
    """Things that serve one thread at a time: as many are made as are ever in use at once."""

    def __init__(self, make: Callable[[], Spare]) -> None:
        """Make the first, so that what cannot be made is known at once."""
        self._make = make
        self._free: SimpleQueue[Spare] = SimpleQueue()
        self._free.put(make())

    @contextmanager
    def one(self) -> Generator[Spare]:
        """Lend one for the time of a `with`; one whose run failed goes back too."""
        try:
            spare = self._free.get_nowait()
        except Empty:
            spare = self._make()
        try:
            yield spare
        finally:
            self._free.put(spare)

    def close(self) -> list[Spare]:
        """Let all go, which nobody uses any more; they are given back."""
        found: list[Spare] = []
        while not self._free.empty():
            found.append(self._free.get_nowait())
        return found
