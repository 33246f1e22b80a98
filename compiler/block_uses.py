"""What each region reads: of the regions around it, of literals, and of sizes to be checked."""

from dataclasses import dataclass, field, replace

from ..dsl.types import DimVar, TensorType
from .graph import Check, Constant, For, Node, Region, Value
from .known_sizes import KnownSizes, SizeSource, dim_names


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

    `unchecked` are checks of names that no shape tells, nor what is computed from them.
    """

    def __init__(self, body: Region) -> None:
        self.unchecked: list[tuple[Node, Check]] = []
        self._found: dict[Region, BlockUses] = {}
        self._literals: dict[Value, Constant] = {}
        self._walk(body, KnownSizes())

    def of(self, region: Region) -> BlockUses:
        return self._found[region]

    def _walk(self, region: Region, sizes: KnownSizes) -> None:
        """Find the uses of a region in which `sizes` can be read already."""
        uses = self._found[region] = BlockUses()
        sizes = sizes.copy()
        own: set[Value] = set(region.params)
        sizes.learn(region.params)
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
                uses.sizes[node] = _sizes_of_none(node.outputs, sizes.sources)
                reads.update(dict.fromkeys(source.value for source in uses.sizes[node]))
            sizes.learn(node.outputs)
            for check in node.checks:
                if _always_holds(check):
                    continue
                told = replace(check, left=sizes.told(check.left), right=sizes.told(check.right))
                found = sizes.found(told.left, told.right)
                if found is None:
                    self.unchecked.append((node, check))
                    continue
                uses.checks.setdefault(node, []).append((told, found))
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


def _sizes_of_none(
    values: tuple[Value, ...], sizes: dict[DimVar, SizeSource]
) -> tuple[SizeSource, ...]:
    """Return where the names in the items of lists are found, those that are found at all."""
    dims = [dim for v in values if isinstance(v.type, TensorType) for dim in v.type.dims[1:]]
    found = dict.fromkeys(name for dim in dims for name in dim_names(dim) if name in sizes)
    return tuple(sizes[name] for name in found)


def _always_holds(check: Check) -> bool:
    return check.op == "==" and check.left == check.right
