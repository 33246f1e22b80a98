"""What is said of each input and output, by itself."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import prod

from ...dsl.diagnostic import Diagnostic, Label
from ..complete import PYTHON, model_file
from ..config import Message, data_type, data_type_name
from ..own_completion import asked_for
from ..subject import Subject, dims_text, meant
from .backends import BACKENDS

_CODE = "HR610"
_OF_A_BATCH = {data_type("INT32"), data_type("FP32")}


def check(subject: Subject) -> Iterator[Diagnostic]:
    for side in ("input", "output"):
        tensors = list(getattr(subject.config, side))
        for i, tensor in enumerate(tensors):
            yield from _tensor(subject, side, i, tensor)
        yield from _same_names(subject, side, tensors)
    yield from _batch_tensors(subject)
    yield from _missing(subject)


def _missing(subject: Subject) -> Iterator[Diagnostic]:
    """A model that neither says its tensors nor lets them be found out."""
    config = subject.config
    # All others find it out themselves, or are no backends here, which is said already.
    if config.backend != "pytorch" and not subject.is_ensemble:
        return
    for side in ("input", "output"):
        if not getattr(config, side):
            yield subject.error(
                _CODE,
                f"`{subject.name}` has no {side}",
                help=f'write `{side} [ {{ name: "x" data_type: TYPE_FP32 dims: [ 3 ] }} ]`',
            )


def _tensor(subject: Subject, side: str, i: int, tensor: Message) -> Iterator[Diagnostic]:
    if not tensor.name:
        yield subject.error(_CODE, f"an {side} without a name", side, i)
    told_later = _is_told_later(subject)
    if tensor.data_type == 0 and not told_later:
        yield subject.error(
            _CODE,
            f"`{tensor.name}` has no data type",
            side,
            i,
            "data_type" if subject.place(side, i, "data_type").text.startswith("TYPE") else "name",
            help="write `data_type: TYPE_FP32`, or another",
        )
    if not tensor.dims and not told_later:
        yield subject.error(
            _CODE,
            f"`{tensor.name}` has no dims",
            side,
            i,
            "name",
            help="one value for each item is `dims: [ 1 ]`",
        )
    yield from _sizes(subject, (side, i, "dims"), tensor.dims, tensor.name)
    if tensor.HasField("reshape"):
        yield from _sizes(subject, (side, i, "reshape", "shape"), tensor.reshape.shape, tensor.name)
        yield from _reshape(subject, side, i, tensor)
    if side == "input" and tensor.format and len(tensor.dims) != 3:
        yield subject.error(
            _CODE,
            f"a picture has 3 dims, but `{tensor.name}` has {len(tensor.dims)}",
            side,
            i,
            "format",
            help="leave out `format`",
        )
    for option in ("is_shape_tensor", "is_non_linear_format_io"):
        if getattr(tensor, option) and subject.config.backend not in ("", "tensorrt"):
            yield subject.error(
                _CODE, f"`{option}` is for TensorRT's models alone", side, i, option
            )


def _is_told_later(subject: Subject) -> bool:
    """Whether the backend completes what is half said: TensorRT's, a Python model that says it, and
    those that headrace does not have."""
    config = subject.config
    if config.backend == PYTHON:
        file = model_file(subject.model, config)
        return file is not None and asked_for(file)
    return (not subject.is_ensemble and config.backend not in (*BACKENDS, "")) or (
        config.backend == "tensorrt"
    )


def _sizes(
    subject: Subject, path: tuple[str | int, ...], dims: Sequence[int], name: str
) -> Iterator[Diagnostic]:
    for i, dim in enumerate(dims):
        if dim < 1 and dim != -1:
            yield subject.error(
                _CODE,
                f"{dim} is no size of `{name}`",
                *path,
                i,
                said="a size is 1 or more, or -1 where it is open",
            )


def _reshape(subject: Subject, side: str, i: int, tensor: Message) -> Iterator[Diagnostic]:
    """Sizes before and after hold as many values; open ones stand in the same order."""
    dims, shape = list(tensor.dims), list(tensor.reshape.shape)
    place = (side, i, "reshape")
    if not shape and subject.config.max_batch_size == 0:
        yield subject.error(
            _CODE,
            f"`{tensor.name}` of a model without batches cannot be a scalar",
            *place,
            help="give `reshape` a shape: `reshape { shape: [ 1 ] }`",
        )
    elif dims.count(-1) != shape.count(-1):
        message = f"`{tensor.name}` has {dims.count(-1)} open sizes and {shape.count(-1)} reshaped"
        yield subject.error(_CODE, message, *place)
    elif _counts(dims) != _counts(shape):
        yield subject.error(
            _CODE,
            f"{dims_text(dims)} and {dims_text(shape)} do not hold as many values",
            *place,
            others=(Label(subject.place(side, i, "dims"), f"of `{tensor.name}`"),),
        )


def _counts(dims: Sequence[int]) -> list[int]:
    """Return how many values there are before, between and behind open sizes."""
    runs = [list(run) for _, run in groupby([1, *_spaced(dims), 1], key=lambda dim: dim == -1)]
    return [prod(run) for run in runs if run[0] != -1]


def _spaced(dims: Sequence[int]) -> Iterator[int]:
    for dim in dims:
        yield from ((1, -1, 1) if dim == -1 else (dim,))


def _same_names(subject: Subject, side: str, tensors: list[Message]) -> Iterator[Diagnostic]:
    first: dict[str, int] = {}
    for i, tensor in enumerate(tensors):
        if side == "output" and tensor in tensors[:i]:
            message = f"the output `{tensor.name}` is written twice"
            yield subject.warning("HR630", message, side, i, "name", help="leave one of them out")
        elif tensor.name and tensor.name in first:
            yield subject.error(
                _CODE,
                f"two {side}s are called `{tensor.name}`",
                side,
                i,
                "name",
                others=(Label(subject.place(side, first[tensor.name], "name"), "first here"),),
            )
        first.setdefault(tensor.name, i)


def _batch_tensors(subject: Subject) -> Iterator[Diagnostic]:
    """What is made of a batch as a whole: of an input that there is, in a type that is possible."""
    config = subject.config
    inputs = [one.name for one in config.input]
    outputs = [one.name for one in config.output]
    for side, known in (("batch_input", ()), ("batch_output", outputs)):
        for i, one in enumerate(getattr(config, side)):
            if len(one.source_input) != 1:
                message = f"a `{side}` has one `source_input`, not {len(one.source_input)}"
                yield subject.error(_CODE, message, side, i, "kind")
            for j, source in enumerate(one.source_input):
                if source not in inputs and subject.has_tensors:
                    yield _no_tensor(subject, "input", source, inputs, side, i, "source_input", j)
            for j, target in enumerate(one.target_name):
                if side == "batch_output" and target not in known and subject.has_tensors:
                    yield _no_tensor(subject, "output", target, outputs, side, i, "target_name", j)
    for i, one in enumerate(config.batch_input):
        if one.data_type not in _OF_A_BATCH:
            yield subject.error(
                _CODE,
                f"a `batch_input` is TYPE_INT32 or TYPE_FP32, not {data_type_name(one.data_type)}",
                "batch_input",
                i,
                "data_type",
            )


def _no_tensor(
    subject: Subject, what: str, name: str, names: list[str], *path: str | int
) -> Diagnostic:
    message = f"`{subject.name}` has no {what} `{name}`"
    return subject.error(_CODE, message, *path, help=meant(name, names, f"{what}s"))
