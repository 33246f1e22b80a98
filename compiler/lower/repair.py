"""Ops that would make an image fit a model: the help for a model that is given raw pixels."""

from copy import deepcopy
from dataclasses import dataclass

from ...dsl.dims import Dims
from ...dsl.types import Dim, DimVar, TensorType, Type
from ...stdlib.op import Argument, Op, OpTypeError
from ..dimensions import rename_dims
from .agree import compare
from .body import Body
from .entities import UsedFamily

CHAINS = (
    ("transpose first", ("to_chw",)),
    ("normalise first", ("normalize",)),
    ("normalise and transpose first", ("normalize", "to_chw")),
)


@dataclass(frozen=True, slots=True)
class Repair:
    """`code` has `{}` where the argument goes."""

    advice: str
    code: str


def find_repair(body: Body, found: TensorType, wanted: TensorType) -> Repair | None:
    """Return the first chain of image ops that turns `found` into `wanted`, None without one.

    Only a family that the file uses is looked at, so that the help can be pasted.
    """
    for name, entity in body.file.entities.items():
        if not isinstance(entity, UsedFamily) or entity.family.name != "image":
            continue
        for advice, ops in CHAINS:
            result: Type | None = found
            code = "{}"
            for bare in ops:
                op = entity.family.ops.get(bare)
                result = None if op is None or result is None else _applied(op, result, body.dims)
                code = f"{name}.{bare}({code})"
            if result is not None and fits(result, wanted, body.dims):
                return Repair(advice, code)
    return None


def fits(found: Type, wanted: Type, dims: Dims) -> bool:
    """Tell whether a type would do for one of a signature, in sizes too; nothing is bound."""
    trial = deepcopy(dims)
    names: dict[DimVar, Dim] = {}

    def change(variable: DimVar) -> Dim:
        if variable.uid:
            return variable
        if variable not in names:
            names[variable] = trial.flexible(variable.name)
        return names[variable]

    return compare(found, rename_dims(wanted, change), trial) is None


def _applied(op: Op, type: Type, dims: Dims) -> Type | None:
    """Return the result type of an op whose other parameters have their defaults."""
    first, *others = op.params
    if not all(param.has_default for param in others) or first.constant:
        return None
    defaults = [Argument(type, True, param.default) for param in others]
    try:
        return op.types([Argument(type), *defaults], deepcopy(dims))[0]
    except OpTypeError:
        return None
