"""How the two sides of a call look in a batch, which no signature shows."""

from ...dsl.types import DimVar, OptionalType, TensorType, Type
from ..graph import ModelDef
from .agree import bare
from .body import Body
from .operands import Made, Operand, Single, singles

BATCH = DimVar("batch")


def note_axes(body: Body, made: Operand, model: ModelDef) -> None:
    """Keep where the batch axis of a model's results is, for what may be said of them later."""
    for single, axis in zip(singles(made), model.output_axes, strict=True):
        if isinstance(single, Made) and axis is not None and model.batches:
            body.whole.batch_axes[single.value] = axis


def shown_in_batch(
    body: Body, single: Single, name: str, wanted: Type, callee: str, axis: int | None
) -> tuple[str, ...]:
    """Return a note with the types of an argument and of its parameter as batches have them.

    `axis` is the parameter's, None where it has none. It matters where a batching model is on
    both sides, and where one side has more axes than the other: perhaps the batch was written.
    """
    sides: list[str] = []
    found = body.whole.batch_axes.get(single.value) if isinstance(single, Made) else None
    if found is not None:
        sides.append(f"{name} is {with_axis(body.resolve(single.type), found)}")
    if axis is not None:
        sides.append(f"`{callee}` wants {with_axis(wanted, axis)}")
    matters = len(sides) == 2 or (sides and _rank(single.type) != _rank(wanted))
    return (f"with the batch axis, {' and '.join(sides)}",) if matters else ()


def with_axis(type: Type, axis: int) -> Type:
    """Return the type of a batch of items of a type."""
    match type:
        case OptionalType(item):
            return OptionalType(with_axis(item, axis))
        case TensorType(dtype, dims):
            return TensorType(dtype, (*dims[:axis], BATCH, *dims[axis:]))
        case _:
            return type


def _rank(type: Type) -> int:
    type = bare(type)
    return len(type.dims) if isinstance(type, TensorType) else 0
