"""What is asked of every declared model, whatever its kind: tensors, and names that it has."""

from ...dsl import ast
from ...dsl.linear import variables
from ...dsl.types import UNKNOWN, Signature, TensorType
from ..dimensions import type_dims
from .agree import bare
from .problems import Problems, did_you_mean
from .type_expressions import read_dim


def require_tensors(item: ast.Model | ast.Fn, declared: Signature, problems: Problems) -> None:
    """What is not in Python takes and gives tensors; only an input may be optional."""
    what = "a model" if isinstance(item, ast.Model) else "a native function"
    pairs = [
        *((p, f, bare(f.type)) for p, f in zip(item.params or (), declared.params, strict=False)),
        *((p, f, f.type) for p, f in zip(item.results or (), declared.results, strict=False)),
    ]
    for param, field, type in pairs:
        if type != UNKNOWN and not isinstance(type, TensorType):
            problems.error(
                "HR321",
                f"`{item.name.text}` has `{field.name}`: {field.type}, but {what} takes and gives "
                "tensors that are always there",
                param.type.span,
            )


def require_names(item: ast.Model, signature: Signature, problems: Problems) -> None:
    """Names in `where` must be dimensions of the signature."""
    fields = (*signature.params, *signature.results)
    known = {v.name for field in fields for dim in type_dims(field.type) for v in variables(dim)}
    for constraint in item.where:
        dims = (read_dim(constraint.left, problems), read_dim(constraint.right, problems))
        for name in sorted({v.name for dim in dims for v in variables(dim)} - known):
            problems.error(
                "HR101",
                f"`{name}` is no dimension of `{item.name.text}`",
                constraint.span,
                notes=(f"`{item.name.text}` is {signature}",),
                help=did_you_mean(name, known),
            )
