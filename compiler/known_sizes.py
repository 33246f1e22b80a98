"""Where names of dimensions can be read at run time: an axis that has the name, or that is computed
from it and tells it (`2 * L` is 14, so `L` is 7).

```
x: f32[2 * L]   check L % 4 == 0   becomes   ("2 * L" / 2) % 4 == 0, "2 * L" being axis 0 of x
```
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..dsl.types import Dim, DimArith, DimVar, TensorType
from .dimensions import rename_dim
from .graph import Value


@dataclass(frozen=True, slots=True)
class SizeSource:
    """Where a named dimension can be read at run time: axis `axis` of `value`."""

    name: DimVar
    value: Value
    axis: int


@dataclass(slots=True)
class KnownSizes:
    """The names that values seen so far tell: `sources` themselves, `solved` by computing."""

    sources: dict[DimVar, SizeSource] = field(default_factory=dict[DimVar, SizeSource])
    solved: dict[DimVar, Dim] = field(default_factory=dict[DimVar, Dim])

    def copy(self) -> "KnownSizes":
        return KnownSizes(dict(self.sources), dict(self.solved))

    def learn(self, values: Iterable[Value]) -> None:
        """Note where names are found first; later places hold the same sizes."""
        computed: list[tuple[DimArith, Value, int]] = []
        for value in values:
            if isinstance(value.type, TensorType):
                for axis, dim in enumerate(value.type.dims):
                    if isinstance(dim, DimVar):
                        self.sources.setdefault(dim, SizeSource(dim, value, axis))
                    elif isinstance(dim, DimArith):
                        computed.append((dim, value, axis))
        for dim, value, axis in computed:
            self._solve(dim, value, axis)

    def told(self, dim: Dim) -> Dim:
        """Return a dimension in names that are sources, as far as it can be."""
        return rename_dim(dim, lambda name: name if name in self.sources else self._solved(name))

    def found(self, *dims: Dim) -> tuple[SizeSource, ...] | None:
        """Return where the names of dimensions are found; None when one is nowhere."""
        names = dict.fromkeys(name for dim in dims for name in dim_names(dim))
        if not self.sources.keys() >= names.keys():
            return None
        return tuple(self.sources[name] for name in names)

    def _solved(self, name: DimVar) -> Dim:
        return self.solved.get(name, name)

    def _solve(self, dim: DimArith, value: Value, axis: int) -> None:
        """Learn the one name in a computed size that nothing else has told."""
        dim = DimArith(dim.op, self.told(dim.left), self.told(dim.right))
        unknown = {name for name in dim_names(dim) if name not in self.sources}
        if len(unknown) != 1 or sum(name in unknown for name in dim_names(dim)) != 1:
            return
        size = DimVar(str(dim), len(self.sources))
        (name,) = unknown
        solution = _solution(dim, size, name)
        if solution is not None:
            self.sources[size] = SizeSource(size, value, axis)
            self.solved[name] = solution


def dim_names(dim: Dim) -> Iterator[DimVar]:
    """Yield the names in a dimension, as often as they occur."""
    match dim:
        case DimVar():
            yield dim
        case DimArith():
            yield from dim_names(dim.left)
            yield from dim_names(dim.right)
        case _:
            return


def _solution(dim: Dim, size: Dim, name: DimVar) -> Dim | None:
    """Return what a name is where `dim`, in which it stands once, is `size`; None where it may be
    several: behind a division, or times what may be nothing."""
    if dim == name:
        return size
    if not isinstance(dim, DimArith):
        return None
    left = name in dim_names(dim.left)
    match dim.op:
        case "+":
            size = DimArith("-", size, dim.right if left else dim.left)
        case "-":
            size = DimArith("+", size, dim.right) if left else DimArith("-", dim.left, size)
        case "*" if isinstance(factor := dim.right if left else dim.left, int) and factor:
            size = DimArith("/", size, factor)
        case _:
            return None
    return _solution(dim.left if left else dim.right, size, name)
