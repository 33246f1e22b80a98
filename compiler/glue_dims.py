"""The sizes of a model call in the words of the model's own signature, and the other way round."""

from collections.abc import Callable

from ..dsl.dims import Dims
from ..dsl.linear import variables
from ..dsl.types import Dim, DimAny, DimArith, DimVar, TensorType
from .graph import Check, ModelDef, Node
from .rewrite import type_dims


class CallSizes:
    """How the dimensions of one call and of the model's signature stand for each other."""

    def __init__(self, call: Node, model: ModelDef) -> None:
        fields = (*model.signature.params, *model.signature.results)
        self._to_model: dict[Dim, Dim] = {}
        self._to_call: dict[DimVar, Dim] = {}
        self._own = {v for field in fields for dim in type_dims(field.type) for v in variables(dim)}
        for field, value in zip(fields, (*call.inputs, *call.outputs), strict=True):
            for own, given in zip(type_dims(field.type), type_dims(value.type), strict=False):
                if isinstance(own, DimVar):
                    self._to_call.setdefault(own, given)
                    if not isinstance(given, int | DimAny):
                        self._to_model.setdefault(given, own)

    def of_model(self, type: TensorType) -> TensorType:
        """Return a type of the call with the model's dimensions.

        Sizes that the model has no name for keep theirs, made different from all of its own.
        """
        return TensorType(type.dtype, tuple(self._of_model(dim) for dim in type.dims))

    def holds(self, check: Check) -> bool:
        """Tell whether a check of the model surely holds for the sizes of the call."""
        if not (variables(check.left) | variables(check.right)) <= self._to_call.keys():
            return False
        left = _replaced(check.left, lambda one: self._to_call[one])
        right = _replaced(check.right, lambda one: self._to_call[one])
        return Dims().holds(left, check.op, right) is True

    def _of_model(self, dim: Dim) -> Dim:
        if dim in self._to_model:
            return self._to_model[dim]
        return _replaced(dim, lambda one: self._to_model.get(one) or self._apart(one))

    def _apart(self, one: DimVar) -> DimVar:
        while one in self._own:
            one = DimVar(one.name, one.uid + 1_000_000)
        return one


def _replaced(dim: Dim, new: Callable[[DimVar], Dim]) -> Dim:
    match dim:
        case DimVar():
            return new(dim)
        case DimArith(op, left, right):
            return DimArith(op, _replaced(left, new), _replaced(right, new))
        case _:
            return dim
