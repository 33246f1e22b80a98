"""A configuration held to the model that it is of: names, types and sizes of an ONNX file."""

from collections.abc import Iterator, Sequence

from ...dsl.diagnostic import Diagnostic
from ..complete import ONNX, model_file, served
from ..config import Message, data_type_name
from ..onnx_file import FileTensor, OnnxFile, read_onnx
from ..subject import Subject, dims_text, meant

_CODE = "HR615"


def check(subject: Subject) -> Iterator[Diagnostic]:
    if subject.config.backend != ONNX:
        return
    for version in served(subject.model, subject.config):
        path = model_file(subject.model, subject.config, version)
        if path is None or not path.exists():
            continue  # said by `layout`
        file = read_onnx(path)
        if file is None:
            yield subject.error(
                _CODE, f"`{path}` is no ONNX model", "default_model_filename", said="of this file"
            )
            continue
        note = f"version {version}, {path}"
        yield from _inputs(subject, file, note)
        yield from _tensors(subject, "input", (*file.inputs, *file.defaults), note)
        yield from _tensors(subject, "output", file.outputs, note)


def _inputs(subject: Subject, file: OnnxFile, note: str) -> Iterator[Diagnostic]:
    """Each input of the file must come from somewhere."""
    config = subject.config
    if not config.input:
        return  # they are the file's, where a file can be read
    given = {one.name for one in config.input}
    given |= {name for one in config.batch_input for name in one.target_name}
    batching = config.sequence_batching
    given |= {one.name for one in batching.control_input}
    given |= {one.input_name for one in batching.state}
    for one in file.inputs:
        if one.name not in given:
            yield subject.error(
                _CODE,
                f"the model's input `{one.name}` is not in the configuration",
                "input",
                notes=(note,),
                help=f'add {{ name: "{one.name}" data_type: {data_type_name(one.data_type)} '
                f"dims: {dims_text(_of_an_item(one, config.max_batch_size))} }}",
            )


def _tensors(
    subject: Subject, side: str, found: Sequence[FileTensor], note: str
) -> Iterator[Diagnostic]:
    by_name = {one.name: one for one in found}
    names = [one.name for one in found]
    for i, tensor in enumerate(getattr(subject.config, side)):
        one = by_name.get(tensor.name)
        if one is None:
            yield subject.error(
                _CODE,
                f"the model has no {side} `{tensor.name}`",
                side,
                i,
                "name",
                notes=(note,),
                help=meant(tensor.name, names, f"its {side}s are"),
            )
            continue
        if tensor.data_type not in (0, one.data_type):
            yield subject.error(
                _CODE,
                f"`{tensor.name}` is {data_type_name(one.data_type)} in the model, not "
                f"{data_type_name(tensor.data_type)}",
                side,
                i,
                "data_type",
                notes=(note,),
            )
        yield from _dims(subject, (side, i), tensor, one, note)


def _dims(
    subject: Subject, path: tuple[str, int], tensor: Message, one: FileTensor, note: str
) -> Iterator[Diagnostic]:
    side = path[0]
    made = {name for each in subject.config.batch_output for name in each.target_name}
    ragged = side == "input" and tensor.allow_ragged_batch
    if one.dims is None or not tensor.dims or (side == "output" and tensor.name in made):
        return
    written = tuple(tensor.reshape.shape if tensor.HasField("reshape") else tensor.dims)
    batches = subject.config.max_batch_size > 0
    if ragged:
        if one.dims != (-1,):
            yield subject.error(
                _CODE,
                f"a ragged input comes as [-1], but the model's `{tensor.name}` is "
                f"{dims_text(one.dims)}",
                *path,
                "allow_ragged_batch",
                notes=(note,),
            )
        return
    if batches and (not one.dims or one.dims[0] != -1):
        yield subject.error(
            _CODE,
            f"`{tensor.name}` of the model is {dims_text(one.dims)}, with no open first axis for "
            "a batch",
            *path,
            "name",
            said=f"`max_batch_size` is {subject.config.max_batch_size}",
            notes=(note,),
            help="write `max_batch_size: 0` and all axes in `dims`, or export the model with an "
            "open first axis",
        )
        return
    whole = (-1, *written) if batches else written
    if not one.dims:
        fits = all(dim == 1 for dim in written)
    else:
        fits = _fit(whole, one.dims, exact=side == "output")
    if not fits:
        yield subject.error(
            _CODE,
            f"`{tensor.name}` is {dims_text(one.dims)} in the model, not {dims_text(whole)}",
            *path,
            "reshape" if tensor.HasField("reshape") else "dims",
            said=f"the model has {dims_text(_of_an_item(one, subject.config.max_batch_size))}"
            + (" behind the batch" if batches else ""),
            notes=(note,),
        )


def _fit(written: Sequence[int], found: Sequence[int], *, exact: bool) -> bool:
    """Whether sizes agree; what one side leaves open is no matter, but for outputs."""
    if len(written) != len(found):
        return False
    pairs = zip(written, found, strict=True)
    return all(a == b or (not exact and -1 in (a, b)) for a, b in pairs)


def _of_an_item(one: FileTensor, max_batch_size: int) -> tuple[int, ...]:
    return (one.dims or ())[1 if max_batch_size > 0 else 0 :] or (1,)
