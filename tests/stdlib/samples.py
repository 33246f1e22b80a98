"""Samples of ops as arguments: with real sizes, or with names in their place."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.dsl.dims import Dims
from headrace.dsl.types import (
    ANY_DIM,
    Dim,
    DimAny,
    DimArith,
    DimVar,
    DType,
    ListType,
    TensorType,
    Type,
)
from headrace.stdlib.dtypes import from_numpy, to_numpy
from headrace.stdlib.op import Argument, Item, Op, Param
from headrace.stdlib.values import array

CALCULATED = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
}


@dataclass(frozen=True)
class Given:
    """One argument of a sample: a literal, or a value made at run time."""

    param: Param
    value: Any  # an Item or a Literal, as `literal` says
    literal: bool


def bind(op: Op, sample: Sequence[object]) -> list[Given]:
    """Pair a sample's values with parameters and add the defaults it leaves out."""
    params = list(op.params)
    if params and params[-1].variadic:
        params = [*params[:-1], *([params[-1]] * (len(sample) - len(params) + 1))]
    values = [*sample, *(param.default for param in params[len(sample) :])]
    weak = (bool, int, float, tuple, DType, type(None))
    return [
        Given(param, value, param.constant or i >= len(sample) or isinstance(value, weak))
        for i, (param, value) in enumerate(zip(params, values, strict=True))
    ]


def samples_of(op: Op) -> list[list[Given]]:
    assert op.samples is not None, f"{op.name} declares no samples"
    return [bind(op, sample) for sample in op.samples(np.random.default_rng(7))]


def type_of(value: object) -> Type:
    """Return the type of a value with its real sizes."""
    return Sizes(float("inf")).of(value)


class Sizes:
    """Gives sizes above a limit a name, one for all equal ones, and checks rules against them."""

    def __init__(self, largest_known: float) -> None:
        self.dims = Dims()
        self._largest_known = largest_known
        self._names: dict[int, DimVar] = {}
        self._values: dict[DimVar, int] = {}

    def dim(self, size: int) -> Dim:
        if size <= self._largest_known:
            return size
        if size not in self._names:
            self._names[size] = self.dims.rigid(f"N{size}")
            self._values[self._names[size]] = size
        return self._names[size]

    def of(self, value: object) -> Type:
        """Return the type of a value."""
        if isinstance(value, list):
            return self._of_list(value)
        if isinstance(value, str | bytes):
            return TensorType(DType.STRING if isinstance(value, str) else DType.BYTES)
        actual = array(value)  # pyright: ignore[reportArgumentType] # a value of any kind
        dtype = DType.STRING if actual.dtype == object else from_numpy(actual.dtype)
        assert dtype is not None
        return TensorType(dtype, tuple(self.dim(size) for size in actual.shape))

    def argument(self, given: Given) -> Argument:
        """Return what is known of an argument when compiling."""
        if not given.literal:
            return Argument(self.of(given.value))
        kind: Type = TensorType(DType.I64)  # of a constant only the literal is looked at
        if not given.param.constant and given.value is not None:
            kind = type_of(given.value)
        return Argument(kind, True, given.value)

    def result_types(self, op: Op, givens: Sequence[Given]) -> tuple[Type, ...]:
        return op.types([self.argument(given) for given in givens], self.dims)

    def match(self, kind: Type, value: Item) -> bool:
        """Return whether a value is of a type, as far as its sizes are known or were seen."""
        if isinstance(kind, ListType):
            assert isinstance(value, list)
            within = kind.maximum is None or len(value) <= kind.maximum
            return within and all(self.match(kind.item, item) for item in value)
        assert isinstance(kind, TensorType)
        if isinstance(value, str | bytes):
            return kind == type_of(value)
        assert isinstance(value, np.ndarray | np.generic), f"{value!r} is no array"
        return (
            value.dtype == to_numpy(kind.dtype)
            and len(value.shape) == len(kind.dims)
            and all(self._agrees(d, s) for d, s in zip(kind.dims, value.shape, strict=True))
        )

    def _of_list(self, values: list[object]) -> Type:
        items = [self.of(item) for item in values]
        if all(item == items[0] for item in items):
            return ListType(items[0])
        first = items[0]
        assert isinstance(first, TensorType)
        return ListType(TensorType(first.dtype, (ANY_DIM,) * len(first.dims)))

    def _agrees(self, dim: Dim, size: int) -> bool:
        resolved = self.dims.resolve(dim)
        if isinstance(resolved, DimVar):
            return self._values.setdefault(resolved, size) == size
        try:
            return isinstance(resolved, DimAny) or self._evaluate(resolved) == size
        except KeyError:
            return True  # a size made at run time is part of it

    def _evaluate(self, dim: Dim) -> int:
        match dim:
            case int():
                return dim
            case DimVar():
                return self._values[dim]
            case DimArith(op, left, right):
                a, b = self._evaluate(left), self._evaluate(right)
                return CALCULATED[op](a, b)
            case DimAny():
                raise KeyError(dim)
