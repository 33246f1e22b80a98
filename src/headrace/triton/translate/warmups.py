"""The requests that a model is warmed up with, as inputs of its pipeline and as tests."""

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from struct import unpack_from
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dsl.types import DType
from ...runtime.protocols.datatypes import DATATYPES
from ...stdlib.dtypes import to_numpy
from ..config import Message
from ..subject import Subject
from .draft import refuse
from .tensors import dtype

_FOLDER = "warmup"


def warmups(subject: Subject) -> Iterator[Mapping[str, NDArray[Any]]]:  # Any: of each dtype
    """Yield the inputs of each request; raises CompileError where a file does not fit."""
    config = subject.config
    inputs = {one.name for one in config.input}
    for number, warmup in enumerate(config.model_warmup):
        rows = max(1, warmup.batch_size)
        given = {
            name: _value(subject, number, name, one, rows if config.max_batch_size > 0 else None)
            for name, one in sorted(warmup.inputs.items())
            if name in inputs
        }
        for _ in range(max(1, warmup.count)):
            yield given


def _value(
    subject: Subject, number: int, name: str, given: Message, rows: int | None
) -> NDArray[Any]:  # Any: of each dtype
    element, dims = DType(dtype(given)), tuple(given.dims)
    text = element is DType.BYTES
    if given.input_data_file:
        value = _from_file(subject, number, name, given, element)
    elif given.random_data and not text:
        value = _random(element, dims)
    else:
        value = np.full(dims, b"", object) if text else np.zeros(dims, to_numpy(element))
    return value if rows is None else np.stack([value] * rows)


def _random(element: DType, dims: tuple[int, ...]) -> NDArray[Any]:  # Any: of each dtype
    """Return what looks like data, the same every time."""
    source = np.random.default_rng(0)
    return (source.random(dims) * 2).astype(to_numpy(element))


def _from_file(
    subject: Subject, number: int, name: str, given: Message, element: DType
) -> NDArray[Any]:  # Any: of each dtype
    path = subject.model.folder / _FOLDER / given.input_data_file
    dims, count = tuple(given.dims), prod(given.dims)
    try:
        if element is DType.BYTES:
            value = np.empty(count, object)
            value[:] = _texts(path, count)
        else:
            width = DATATYPES[element].width * count
            value = np.frombuffer(path.read_bytes()[:width], to_numpy(element), count)
    except (OSError, ValueError) as error:
        raise refuse(
            subject,
            f"`{given.input_data_file}` is not {count} elements of {element.value}: {error}",
            *("model_warmup", number, "inputs", name),
            help="write the elements one after the other, as they are in memory",
        ) from None
    return value.reshape(dims)


def _texts(path: Path, count: int) -> list[bytes]:
    """Read texts, each behind its length in four bytes."""
    content, at, found = path.read_bytes(), 0, list[bytes]()
    while at + 4 <= len(content) and len(found) < count:
        (length,) = unpack_from("<I", content, at)
        found.append(content[at + 4 : at + 4 + length])
        at += 4 + length
    if len(found) != count:
        raise ValueError(f"there are {len(found)} texts")
    return found
