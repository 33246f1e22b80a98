"""Requests that are run before a model is ready: of its own inputs, with data that is there."""

from collections.abc import Iterator

from ...dsl.diagnostic import Diagnostic
from ..config import Message, data_type_name
from ..subject import Subject, dims_text, meant

_CODE = "HR616"


def check(subject: Subject) -> Iterator[Diagnostic]:
    config = subject.config
    for i, warmup in enumerate(config.model_warmup):
        path = ("model_warmup", i)
        if subject.is_ensemble:
            return  # `ensemble` has its say
        if warmup.batch_size > max(config.max_batch_size, 1):
            yield subject.error(
                _CODE,
                f"{warmup.batch_size} rows are warmed up, but `max_batch_size` is "
                f"{config.max_batch_size}",
                *path,
                "batch_size",
            )
        if subject.has_tensors:
            yield from _missing(subject, warmup, path)
        for name, given in sorted(warmup.inputs.items()):
            yield from _input(subject, name, given, (*path, "inputs", name))


def _missing(
    subject: Subject, warmup: Message, path: tuple[str | int, ...]
) -> Iterator[Diagnostic]:
    for one in subject.config.input:
        if one.name not in warmup.inputs and not one.optional:
            yield subject.error(
                _CODE,
                f"the warm-up does not give `{one.name}`",
                *path,
                help=f'add inputs {{ key: "{one.name}" value {{ ... }} }}, of '
                f"{data_type_name(one.data_type)} and {dims_text(one.dims)}",
            )


def _input(
    subject: Subject, name: str, given: Message, path: tuple[str | int, ...]
) -> Iterator[Diagnostic]:
    inputs = {one.name: one for one in subject.config.input}
    controls = [one.name for one in subject.config.sequence_batching.control_input]
    declared = inputs.get(name)
    if declared is None and subject.has_tensors and name not in controls:
        message = f"`{subject.name}` has no input `{name}` to warm up"
        yield subject.error(_CODE, message, *path, help=meant(name, list(inputs), "inputs"))
    if declared is not None and given.data_type != declared.data_type:
        yield subject.error(
            _CODE,
            f"`{name}` is {data_type_name(declared.data_type)}, not "
            f"{data_type_name(given.data_type)}",
            *path,
            "value",
            "data_type",
        )
    if declared is not None and not _fits(list(given.dims), list(declared.dims)):
        yield subject.error(
            _CODE,
            f"`{name}` is {dims_text(declared.dims)}, not {dims_text(given.dims)}",
            *path,
            "value",
            "dims",
            help="sizes are those of one item, and each is known",
        )
    kind = given.WhichOneof("input_data_type")
    if kind is None:
        yield subject.error(
            _CODE,
            f"nothing says what `{name}` holds",
            *path,
            help="write `zero_data: true`, `random_data: true` or `input_data_file`",
        )
    folder = subject.model.folder / "warmup"
    if kind == "input_data_file" and not (folder / given.input_data_file).is_file():
        there = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
        yield subject.error(
            "HR608",
            f"there is no file `warmup/{given.input_data_file}`",
            *path,
            "value",
            "input_data_file",
            help=meant(given.input_data_file, there, "there are"),
        )


def _fits(dims: list[int], declared: list[int]) -> bool:
    pairs = zip(dims, declared, strict=False)
    return (
        len(dims) == len(declared) and -1 not in dims and all(a == b or b == -1 for a, b in pairs)
    )
