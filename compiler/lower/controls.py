"""`sequence.start` and its like: what a pipeline that is `per sequence` reads of its request.

Each is one more parameter of the graph's body, which the runtime fills; there are those that are
read, in the order of `FIELDS`.
"""

from typing import Final

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.types import DType, Field, TensorType
from ..graph import Value
from .body import Body
from .operands import BROKEN, Made, Operand
from .problems import did_you_mean

SEQUENCE: Final = "sequence"
FIELDS: Final = {
    "start": TensorType(DType.BOOL),
    "end": TensorType(DType.BOOL),
    "ready": TensorType(DType.BOOL),
    "id": TensorType(DType.STRING),
    "number": TensorType(DType.U64),
}
_IDS = ("id", "number")


def lower_control(body: Body, expr: ast.Attribute) -> Operand:
    """Return the value of `sequence.x`, where `sequence` is no name of the source."""
    name, read = expr.name.text, body.whole.controls
    if read is None:
        body.problems.error(
            "HR348",
            f"`{expr.span.text}` is read of a request's sequence, and there is none here",
            expr.span,
            help="read it in a pipeline that is `per sequence`; a function gets it as a parameter",
        )
        return BROKEN
    if name not in FIELDS:
        listed = ", ".join(f"`{one}`" for one in FIELDS)
        body.problems.error(
            "HR348",
            f"there is no `sequence.{name}`, only {listed}",
            expr.name.span,
            help=did_you_mean(name, FIELDS),
        )
        return BROKEN
    other = next((one for one in _IDS if name in _IDS and one != name and one in read), None)
    if other is not None:
        body.problems.error(
            "HR348",
            "an id is a text or a number, and every sequence has one of them",
            expr.span,
            secondary=(Label(read[other].span, f"read as `sequence.{other}` here"),),
            help="read one of them: requests whose id is the other are refused",
        )
        return BROKEN
    if name not in read:
        read[name] = Value(FIELDS[name], name, expr.span)
    return Made(read[name])


def fields_of(read: dict[str, Value] | None) -> tuple[Field, ...]:
    """Return what is read, in the order in which it is given."""
    return tuple(Field(name, type) for name, type in FIELDS.items() if read and name in read)
