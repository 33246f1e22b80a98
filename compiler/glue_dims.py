"""The sizes of a model call in the words of the model's own signature, and the other way round."""

from dataclasses import replace

from ..dsl.dims import Dims
from ..dsl.linear import variables
from ..dsl.types import Dim, DimAny, DimVar, TensorType, Type
from .dimensions import rename_dim, rename_dims, type_dims
from .graph import Check, ModelDef, Node
from .rewrite import same_form


class CallSizes:
    """How the dimensions of one call and of the model's signature stand for each other."""

    def __init__(self, call: Node, model: ModelDef) -> None:
        fields = (*model.signature.params, *model.signature.results)
        self._to_model: dict[Dim, Dim] = {}
        self._to_call: dict[DimVar, Dim] = {}
        self._own = {v for field in fields for dim in type_dims(field.type) for v in variables(dim)}
        for field, value in zip(fields, (*call.inputs, *call.outputs), strict=True):
            if not same_form(field.type, value.type):
                continue  # a list in place of a tensor: its item's sizes are not those of axes
            for own, given in zip(type_dims(field.type), type_dims(value.type), strict=True):
                if isinstance(own, DimVar):
                    self._to_call.setdefault(own, given)
                    if not isinstance(given, int | DimAny):
                        self._to_model.setdefault(given, own)

    def of_model(self, type: TensorType) -> TensorType:
        """Return a type of the call with the model's dimensions.

        Sizes that the model has no name for keep theirs, made different from all of its own.
        """
        return TensorType(type.dtype, tuple(self._of_model(dim) for dim in type.dims))

    def of_call(self, type: Type) -> Type:
        """Return a type of the model with the dimensions of the call."""
        return rename_dims(type, lambda one: self._to_call.get(one, one))

    def check_of_call(self, check: Check) -> Check | None:
        """Return a check of the model with the sizes of the call, None if it surely holds."""
        if self.holds(check):
            return None
        left, right = (
            rename_dim(dim, lambda one: self._to_call.get(one, one))
            for dim in (check.left, check.right)
        )
        return replace(check, left=left, right=right)

    def holds(self, check: Check) -> bool:
        """Tell whether a check of the model surely holds for the sizes of the call."""
        if not (variables(check.left) | variables(check.right)) <= self._to_call.keys():
            return False
        left = rename_dim(check.left, lambda one: self._to_call[one])
        right = rename_dim(check.right, lambda one: self._to_call[one])
        return Dims().holds(left, check.op, right) is True

    def _of_model(self, dim: Dim) -> Dim:
        if dim in self._to_model:
            return self._to_model[dim]
        return rename_dim(dim, lambda one: self._to_model.get(one) or self._apart(one))

    def _apart(self, one: DimVar) -> DimVar:
        while one in self._own:
            one = DimVar(one.name, one.uid + 1_000_000)
        return one
