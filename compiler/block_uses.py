"""What each region reads: of the regions around it, of literals, and of sizes to be checked."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..dsl.types import Dim, DimArith, DimVar, TensorType
from .graph import Check, Constant, For, Node, Region, Value


@dataclass(frozen=True, slots=True)
class SizeSource:
    """Where a named dimension can be read at run time: axis `axis` of `value`."""

    name: DimVar
    value: Value
    axis: int


@dataclass(slots=True)
class BlockUses:
    """What a region reads, each once, in the order of first use.

    `read_by` holds what a node reads of its own region and those around, through its regions and
    for its checks too. `checks` are those that can fail, with where their sizes are found; `sizes`
    are those that the results of a `for` have even when there is no item.
    """

    captured: dict[Value, None] = field(default_factory=dict[Value, None])
    constants: dict[Value, Constant] = field(default_factory=dict[Value, Constant])
    read_by: dict[Node, dict[Value, None]] = field(default_factory=dict[Node, "dict[Value, None]"])
    checks: dict[Node, list[tuple[Check, tuple[SizeSource, ...]]]] = field(
        default_factory=dict[Node, "list[tuple[Check, tuple[SizeSource, ...]]]"]
    )
    sizes: dict[Node, tuple[SizeSource, ...]] = field(
        default_factory=dict[Node, "tuple[SizeSource, ...]"]
    )


class Uses:
    """The uses of all regions of a pipeline, found in one walk.

    `unchecked` are checks of names that occur only within arithmetic, which no shape tells.
    """

    def __init__(self, body: Region) -> None:
        self.unchecked: list[tuple[Node, Check]] = []
        self._found: dict[Region, BlockUses] = {}
        self._literals: dict[Value, Constant] = {}
        self._walk(body, {})

    def of(self, region: Region) -> BlockUses:
        return self._found[region]

    def _walk(self, region: Region, sizes: dict[DimVar, SizeSource]) -> None:
        """Find the uses of a region in which `sizes` can be read already."""
        uses = self._found[region] = BlockUses()
        sizes = dict(sizes)
        own: set[Value] = set(region.params)
        _learn(region.params, sizes)
        for node in region.nodes:
            own.update(node.outputs)
            if isinstance(node.kind, Constant):
                self._literals.update(dict.fromkeys(node.outputs, node.kind))
                continue
            reads = dict.fromkeys(node.inputs)
            for inner in node.regions:
                self._walk(inner, sizes)
                reads.update(dict.fromkeys(self._found[inner].captured))
            if isinstance(node.kind, For):
                uses.sizes[node] = _sizes_of_none(node.outputs, sizes)
                reads.update(dict.fromkeys(source.value for source in uses.sizes[node]))
            _learn(node.outputs, sizes)
            for check in node.checks:
                if _always_holds(check):
                    continue
                found = _sources(check, sizes)
                if found is None:
                    self.unchecked.append((node, check))
                    continue
                uses.checks.setdefault(node, []).append((check, found))
                reads.update(dict.fromkeys(source.value for source in found))
            uses.read_by[node] = reads
            self._note(uses, reads, own)
        self._note(uses, dict.fromkeys(region.results), own)

    def _note(self, uses: BlockUses, reads: dict[Value, None], own: set[Value]) -> None:
        for value in reads:
            if value in self._literals:
                uses.constants[value] = self._literals[value]
            elif value not in own:
                uses.captured[value] = None


def _learn(values: tuple[Value, ...], sizes: dict[DimVar, SizeSource]) -> None:
    """Note where names are found first; later places hold the same sizes."""
    for value in values:
        if isinstance(value.type, TensorType):
            for axis, dim in enumerate(value.type.dims):
                if isinstance(dim, DimVar):
                    sizes.setdefault(dim, SizeSource(dim, value, axis))


def _sizes_of_none(
    values: tuple[Value, ...], sizes: dict[DimVar, SizeSource]
) -> tuple[SizeSource, ...]:
    """Return where the names in the items of lists are found, those that are found at all."""
    dims = [dim for v in values if isinstance(v.type, TensorType) for dim in v.type.dims[1:]]
    found = dict.fromkeys(name for dim in dims for name in _names(dim) if name in sizes)
    return tuple(sizes[name] for name in found)


def _sources(check: Check, sizes: dict[DimVar, SizeSource]) -> tuple[SizeSource, ...] | None:
    """Return where the names of a check are found, None when a name is nowhere by itself."""
    names = dict.fromkeys((*_names(check.left), *_names(check.right)))
    return tuple(sizes[name] for name in names) if sizes.keys() >= names.keys() else None


def _names(dim: Dim) -> Iterator[DimVar]:
    match dim:
        case DimVar():
            yield dim
        case DimArith():
            yield from _names(dim.left)
            yield from _names(dim.right)
        case _:
            return


def _always_holds(check: Check) -> bool:
    return check.op == "==" and check.left == check.right
