"""`pad = L, bucket = L / 64, waste = 0.2` of a `batch { }`: which rows of different size meet.

Only a model that declares `pads L` may have its rows padded: without the declaration a schedule
would change results.
"""

from collections.abc import Set
from functools import partial

from ..dsl import ast
from ..dsl.nearest import nearest
from ..dsl.types import DimVar, OptionalType, TensorType
from . import schedule_values as read
from .graph import FunctionDef, ModelDef
from .policies import Padding
from .schedule_values import Mistake, Section


def read_padding(
    section: Section, given: Set[str], name: str, runs: ModelDef | FunctionDef | None
) -> Padding | None:
    """Take the three keys; None where they say nothing or make no sense, which is reported."""
    if "pad" not in given:
        for key in ("bucket", "waste"):
            section.refuse(key, "HR403", f"`{key}` has no effect without `pad`", "add `pad = L`")
        return None
    dim = section.take("pad", partial(_dim, name=name, runs=runs))
    bucket = section.take("bucket", partial(_bucket, dim=dim))
    waste = section.take("waste", _waste)
    return Padding(dim, bucket, waste) if dim is not None else None


def _dim(setting: ast.Setting, name: str, runs: ModelDef | FunctionDef | None) -> DimVar:
    expr = read.value(setting)
    if not isinstance(expr, ast.Name):
        raise Mistake("HR405", "`pad` wants the name of a dimension", expr.span)
    if not isinstance(runs, ModelDef):
        message = f"`pad` has no effect on `{name}`: only models declare what padding is"
        raise Mistake("HR403", message, setting.key.span, "has no effect")
    for pads in runs.pads:
        if pads.dim.name == expr.text:
            return pads.dim
    meant = nearest(expr.text, [pads.dim.name for pads in runs.pads])
    filled = ", ".join(f"{one} = 0" for one in _having(runs, expr.text))
    help = f"did you mean `{meant}`?" if meant else None
    if help is None and filled:
        help = (
            f"if padding changes nothing in it, add `pads {expr.text} with ({filled})` to the model"
        )
    raise Mistake(
        "HR424",
        f"`{name}` does not declare that padding `{expr.text}` is harmless to it",
        expr.span,
        "rows of different size would change its results",
        help,
    )


def _having(model: ModelDef, dim: str) -> list[str]:
    """Return the inputs that have a dimension of this name."""
    found: list[str] = []
    for field in model.signature.params:
        type = field.type.item if isinstance(field.type, OptionalType) else field.type
        if isinstance(type, TensorType) and dim in [str(one) for one in type.dims]:
            found.append(field.name)
    return found


def _bucket(setting: ast.Setting, dim: DimVar | None) -> int:
    """Read `L / 64`: sizes that are the same number of 64s, rounded up, meet."""
    expr = read.value(setting)
    match expr:
        case ast.Binary(op="/", left=ast.Name(text=name), right=ast.Number(value=int(size))) if (
            dim is None or name == dim.name
        ):
            if size < 1:
                raise Mistake("HR406", "`bucket` must be 1 or more", expr.right.span)
            return size
        case _:
            like = f"{dim or 'L'} / 64"
            raise Mistake("HR405", f"`bucket` wants a step such as {like}", expr.span)


def _waste(setting: ast.Setting) -> float:
    """Read a share of at least 0 and less than 1."""
    expr = read.value(setting)
    if not isinstance(expr, ast.Number):
        raise Mistake("HR405", "`waste` wants a share such as 0.2", expr.span)
    if not 0 <= expr.value < 1:
        raise Mistake("HR406", "`waste` must be 0 or more and less than 1", expr.span)
    return float(expr.value)
