"""Samples from files: what the inputs of a pipeline are in a request, or in many.

A folder is as many samples as there are files and folders in it, in the order of their names; a
file is one. A sample names its inputs, or is the only one that its pipeline must be given:

    pages/one.png            the bytes of the only input
    rows/0001.npy            its numbers; in .json too
    both/0001/{a.npy,b.txt}  a folder: a file for each input
    both/0001.npz            the arrays of several inputs
    both/0001.json           an object: the values of several inputs
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast
from zipfile import BadZipFile, ZipFile

from .compiler.plan import PipelinePlan
from .dsl.diagnostic import Refusal
from .dsl.types import DType, ListType, OptionalType, TensorType, Type
from .stdlib.npy import read_npy

Inputs: TypeAlias = Mapping[str, Any]  # Any: whatever an input's type allows; the runtime checks it


@dataclass(frozen=True, slots=True)
class Sample:
    """The inputs of one request; `name` is for people. Under "" is the only input of a pipeline,
    which has the name that the pipeline gives it."""

    name: str
    inputs: Mapping[str, "Path | Any"]


class SampleError(Refusal):
    """Samples are refused (HR432); the message says why."""


def read_samples(path: Path) -> tuple[Sample, ...]:
    """Return the samples of a file or folder; raises SampleError."""
    if not path.exists():
        raise _refused(f"there is no `{path}`")
    if not path.is_dir():
        return (_sample(path),)
    inside = sorted(one for one in path.iterdir() if not one.name.startswith("."))
    if not inside:
        raise _refused(f"`{path}` is an empty folder")
    return tuple(_sample(one) for one in inside)


def inputs_for(pipeline: PipelinePlan, sample: Sample) -> Inputs | None:
    """Return a sample as the inputs of a pipeline, None where it names others; raises
    SampleError for a file that does not hold what the input takes."""
    kinds = {one.field.name: one.field.type for one in pipeline.parameters}
    needed = [one.field.name for one in pipeline.parameters if not one.has_default]
    given = dict(sample.inputs)
    if list(given) == [""]:
        if len(needed) != 1:
            return None
        given = {needed[0]: given[""]}
    if not set(needed) <= set(given) <= set(kinds):
        return None
    return {
        name: _read(value, kinds[name]) if isinstance(value, Path) else value
        for name, value in given.items()
    }


def samples_of(given: Sequence[Inputs]) -> tuple[Sample, ...]:
    """Return samples that are at hand as values."""
    return tuple(Sample(f"sample {number}", one) for number, one in enumerate(given))


def _sample(path: Path) -> Sample:
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if not one.name.startswith("."))
        return Sample(path.name, {one.stem: one for one in files})
    if path.suffix in (".npz", ".json") and isinstance(whole := _loaded(path), dict):
        return Sample(path.name, cast("dict[str, Any]", whole))
    return Sample(path.name, {"": path})


def _read(path: Path, kind: Type) -> Any:  # Any: as of Inputs
    while not isinstance(kind, TensorType):
        match kind:
            case ListType(item=item) | OptionalType(item=item):
                kind = item
            case _:
                raise _refused(f"`{path}` is for an input of type {kind}, which no file holds")
    if path.suffix in (".npy", ".json"):
        return _loaded(path)
    if kind.dtype is DType.BYTES:
        return path.read_bytes()
    if kind.dtype is DType.STRING:
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise _refused(f"`{path}` is not text") from error
    raise _refused(f"`{path}` is for numbers, and ends neither in .npy nor in .json")


def _loaded(path: Path) -> Any:  # Any: what the file holds
    try:
        if path.suffix == ".json":
            return json.loads(path.read_text(encoding="utf-8"))
        if path.suffix == ".npz":
            with ZipFile(path) as archive:
                named = {name: read_npy(archive.read(name)) for name in archive.namelist()}
            return {name.removesuffix(".npy"): array for name, array in named.items()}
        return read_npy(path.read_bytes())
    except (ValueError, BadZipFile, OSError) as error:
        raise _refused(f"`{path}` cannot be read: {error}") from error


def _refused(message: str) -> SampleError:
    help = "name a sample, or a folder of samples: files that the pipeline's inputs take"
    return SampleError("HR432", message, help)
