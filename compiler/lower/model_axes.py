"""Which axis of each input and output of a model is the batch."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...dsl import ast
from ...dsl.types import Signature, TensorType
from ..signatures import FileSignature, FileTensor
from .agree import bare
from .outside_names import outside_names
from .problems import Problems, did_you_mean


@dataclass(frozen=True, slots=True)
class Axes:
    """The batch axis of each input and output, None where there is none.

    `freed` names axes that the file fixes at 1 and the source says are the batch.
    """

    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    freed: tuple[tuple[str, int], ...] = ()

    @property
    def batches(self) -> bool:
        return any(axis is not None for axis in self.inputs)


def choose_axes(
    item: ast.Model, declared: Signature | None, found: FileSignature | None, problems: Problems
) -> Axes | None:
    """Return the batch axes in the order of the signature; None after a mistake in `batch`."""
    inputs, outputs = _names(declared, found)
    if item.batch is not None and item.batch.axes is not None:
        return _written(item, item.batch.axes, inputs, outputs, declared, found, problems)
    if item.batch is not None or (found is not None and not _is_open(found)):
        return Axes((None,) * len(inputs), (None,) * len(outputs))
    return Axes((0,) * len(inputs), (0,) * len(outputs))


def matched(names: Sequence[str], tensors: Sequence[FileTensor]) -> list[FileTensor]:
    """Pair declared names with a file's tensors: by name where equal, else in order.

    Tensors with a default in the file are paired by name only.
    """
    by_name = {one.name: one for one in tensors}
    others = iter([one for one in tensors if one.name not in names and not one.optional])
    pairs = [by_name.get(name) or next(others, None) for name in names]
    return [one for one in pairs if one is not None]


def _names(declared: Signature | None, found: FileSignature | None) -> tuple[list[str], list[str]]:
    if declared is not None:
        return [one.name for one in declared.params], [one.name for one in declared.results]
    assert found is not None
    return [one.name for one in found.required_inputs], [one.name for one in found.outputs]


def _is_open(found: FileSignature) -> bool:
    """Tell whether axis 0 has no fixed size in any input and output."""
    tensors = (*found.required_inputs, *found.outputs)
    return all(one.dims and not isinstance(one.dims[0], int) for one in tensors)


def _written(
    item: ast.Model,
    axes: Sequence[tuple[ast.Ident, int]],
    inputs: list[str],
    outputs: list[str],
    declared: Signature | None,
    found: FileSignature | None,
    problems: Problems,
) -> Axes | None:
    before = problems.errors
    written: dict[str, int] = {}
    for name, axis in axes:
        if name.text not in (*inputs, *outputs):
            problems.error(
                "HR307",
                f"the model has no input or output `{name.text}`",
                name.span,
                help=did_you_mean(name.text, (*inputs, *outputs)),
            )
        elif name.text in written:
            problems.error("HR307", f"the batch axis of `{name.text}` is given twice", name.span)
        elif declared is not None and not _is_within(declared, name.text, axis):
            problems.error(
                "HR307",
                f"`{name.text}` has no place for a batch axis {axis}",
                name.span,
                notes=("axes are counted from 0, the batch axis included",),
            )
        written[name.text] = axis
    if problems.errors > before:
        return None
    chosen = Axes(
        tuple(written.get(name) for name in inputs), tuple(written.get(name, 0) for name in outputs)
    )
    if found is None:
        return chosen
    freed = _freed(item, axes, chosen, inputs, outputs, found, problems)
    return None if freed is None else Axes(chosen.inputs, chosen.outputs, freed)


def _is_within(declared: Signature, name: str, axis: int) -> bool:
    for field in (*declared.params, *declared.results):
        type = bare(field.type)
        if field.name == name and isinstance(type, TensorType):
            return axis <= len(type.dims)
    return True


def _freed(
    item: ast.Model,
    written: Sequence[tuple[ast.Ident, int]],
    axes: Axes,
    inputs: list[str],
    outputs: list[str],
    found: FileSignature,
    problems: Problems,
) -> tuple[tuple[str, int], ...] | None:
    """Return the batch axes that the file fixes at 1; report those it fixes at another size."""
    freed: list[tuple[str, int]] = []
    before = problems.errors
    pairs = [
        *zip(
            inputs,
            matched(outside_names(item.params) or inputs, found.inputs),
            axes.inputs,
            strict=False,
        ),
        *zip(
            outputs,
            matched(outside_names(item.results) or outputs, found.outputs),
            axes.outputs,
            strict=False,
        ),
    ]
    spans = {name.text: name.span for name, _ in written}
    for name, tensor, axis in pairs:
        if axis is None or tensor.dims is None or axis >= len(tensor.dims):
            continue
        size = tensor.dims[axis]
        if size == 1:
            freed.append((tensor.name, axis))
        elif isinstance(size, int):
            problems.error(
                "HR307",
                f"the file fixes axis {axis} of `{name}` at {size}, so it cannot be the batch axis",
                spans.get(name, written[0][0].span),
                notes=(f"the file is {found}",),
                help="write `batch none` and the whole shape",
            )
    return None if problems.errors > before else tuple(freed)
