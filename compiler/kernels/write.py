"""Writes a chain of ops as the text of one kernel.

Every value of a chain is an axis-aligned part of one walk: a thread takes one element of the
results and computes what leads to it, so that what is broadcast is read with a stride of zero and
nothing between is kept. With a reduction it walks as well along the axes that go away, and what
stands before the reduction is computed at each of these places.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from ...dsl.types import DType, TensorType
from ...stdlib.dtypes import to_numpy
from ...stdlib.op import Array, Decline, Fold, Literal, Op
from ...stdlib.op import Kernel as Line
from ...stdlib.values import integers, same_dtype
from ..graph import Node, OpCall, Value
from ..kernel_file import Kernel, Table, Walk
from .c_types import bound, computed, converted, literal, loaded, stored

LARGEST_TABLE: Final = 1024  # elements
_PAIRS: Final = frozenset({"atan2", "hypot", "pow"})
_ALWAYS: Final = frozenset({"fabs", "fmod"})
Fields: TypeAlias = dict[str, object]
"""What the template is given."""


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Ops in order of execution, what they read that others make, what of theirs others read, and
    the literals among their arguments. All outputs have the same dims, also those of what stands
    behind a reduction, of which there is one at most."""

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    literals: Mapping[Value, Literal]


def write_kernel(chain: Chain) -> Kernel:
    """Return the kernel of a chain; raises Decline with the reason when it has none."""
    return _Writing(chain).kernel()


def op_of(node: Node) -> Op:
    """Return the op of a node that calls one."""
    if not isinstance(node.kind, OpCall):
        raise TypeError(f"{node.stage} calls no op")
    return node.kind.op


def tensor_of(value: Value) -> TensorType:
    """Return the type of a tensor; raises Decline for any other."""
    kind = value.type
    if not isinstance(kind, TensorType) or kind.dtype in (DType.STRING, DType.BYTES):
        raise Decline(f"`{value.name}` is {kind}, which a device cannot keep")
    return kind


def folded_axes(node: Node, literals: Mapping[Value, Literal]) -> tuple[int, ...]:
    """Return the axes that a reduction takes away, counted from the front."""
    rank, given = len(tensor_of(node.inputs[0]).dims), literals[node.inputs[1]]
    return (
        tuple(sorted(one % rank for one in integers(given)))
        if given is not None
        else tuple(range(rank))
    )


class _Writing:
    """One chain. `full` are the loops along the axes of what is reduced, `after` what stands
    behind it, or all where nothing is reduced."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.outer = 1 + len(tensor_of(chain.outputs[0]).dims)
        self.fold = next((n for n in chain.nodes if isinstance(op_of(n).kernel, Fold)), None)
        self.full, self.inner = self._loops()
        self.before = self._ancestors()
        self.names: dict[tuple[Value, bool], str] = {}
        self.walks: list[Fields] = []
        self.read: list[Walk] = []
        self.tables: list[tuple[Table, Fields]] = []
        self.lines: dict[bool, list[str]] = {True: [], False: []}
        self.dtypes: set[str] = set()

    def kernel(self) -> Kernel:
        for node in self.chain.nodes:
            for value in node.inputs:
                if value in self.chain.inputs:
                    self._walk_input(value, self._is_before(node))
        fold: Fields | None = None
        for node in self.chain.nodes:
            if node is self.fold:
                fold = self._fold(node)
            else:
                self._line(node)
        inputs = tuple(tensor_of(value).dtype for value in self.chain.inputs)
        outputs = tuple(tensor_of(value).dtype for value in self.chain.outputs)
        text = _template().render(
            title=", ".join(node.stage for node in self.chain.nodes),
            dtypes=self.dtypes,
            **self._functions(fold),
            reads=[walk["dtype"] for walk in self.walks[: len(self.read)]],
            writes=[dtype.value for dtype in outputs],
            walks=self.walks,
            tables=[fields for _, fields in self.tables],
            outer=self.outer,
            inner=self.inner,
            before=self.lines[True],
            after=self.lines[False],
            fold=fold,
            results=[self.names[value, False] for value in self.chain.outputs],
        )
        tables = tuple(table for table, _ in self.tables)
        return Kernel(text, self.outer, self.inner, inputs, outputs, tuple(self.read), tables)

    # ---- loops

    def _loops(self) -> tuple[tuple[int, ...], int]:
        """Return the loops of what is reduced, and how many of them are inner ones."""
        if self.fold is None:
            return (), 0
        axes = folded_axes(self.fold, self.chain.literals)
        keepdims = bool(self.chain.literals[self.fold.inputs[2]])
        full: list[int] = []
        kept = 1
        for axis in range(len(tensor_of(self.fold.inputs[0]).dims)):
            full.append(self.outer + axes.index(axis) if axis in axes else kept)
            kept += axis not in axes or keepdims
        return tuple(full), len(axes)

    def _ancestors(self) -> set[Node]:
        if self.fold is None:
            return set()
        makers = {value: node for node in self.chain.nodes for value in node.outputs}
        found: set[Node] = set()
        waiting = [self.fold]
        while waiting:
            for value in waiting.pop().inputs:
                maker = makers.get(value)
                if maker is not None and maker not in found:
                    found.add(maker)
                    waiting.append(maker)
        return found

    def _is_before(self, node: Node) -> bool:
        return node is self.fold or node in self.before

    def _along(self, rank: int, before: bool) -> tuple[int, ...]:
        """Return the loops of a value's axes, which are the last ones."""
        loops = self.full if before else tuple(range(1, self.outer))
        return loops[len(loops) - rank :]

    # ---- what is read

    def _walk_input(self, value: Value, before: bool) -> None:
        if (value, before) in self.names:
            return
        kind, number = tensor_of(value), len(self.walks)
        self.read.append(Walk(self.chain.inputs.index(value), self._along(len(kind.dims), before)))
        self._walk(f"input{number}", kind.dtype, before)
        self.names[value, before] = f"x{number}"

    def _walk(self, array: str, dtype: DType, before: bool) -> None:
        self.dtypes.add(dtype.value)
        number = len(self.walks)
        self.walks.append(
            {"number": number, "array": array, "dtype": dtype.value, "before": before}
        )

    def _table(self, values: Array, dtype: DType, before: bool) -> str:
        """Return the variable that has the element of a literal with axes."""
        if values.size > LARGEST_TABLE:
            raise Decline(f"a literal of {values.size} elements is too large for the text of code")
        name = f"x{len(self.walks)}"
        self._walk(f"table{len(self.tables)}", dtype, before)
        fields: Fields = {
            "dtype": dtype.value,
            "elements": [stored(values.reshape(-1)[i], dtype) for i in range(values.size)],
        }
        loops = self._along(values.ndim, before)
        self.tables.append((Table(values.shape, loops), fields))
        return name

    # ---- what is computed

    def _line(self, node: Node) -> None:
        line, before = op_of(node).kernel, self._is_before(node)
        assert isinstance(line, Line)
        result = tensor_of(node.outputs[0]).dtype
        dtype = self._dtype(node, line)
        operands = [
            self._operand(node, index, dtype, line, before) for index in range(len(node.inputs))
        ]
        source = DType.BOOL if line.tells else dtype if line.converts else result
        name = f"v{len(self.names)}"
        self.names[node.outputs[0], before] = name
        self.dtypes.add(result.value)
        text = converted(line.expression.format(*operands), source, result)
        self.lines[before].append(f"const {result.value} {name} = {text};")

    def _dtype(self, node: Node, line: Line) -> DType:
        """Return the dtype that the arguments of a node share, as `same_dtype` finds it; raises
        Decline where its code does not do for it."""
        values = node.inputs[1:] if line.selects else node.inputs
        made = [tensor_of(one).dtype for one in values if one not in self.chain.literals]
        dtype = made[0] if made else tensor_of(node.outputs[0]).dtype
        if line.requires is not None:
            literals = self.chain.literals
            line.requires(
                dtype,
                [_array(literals[one], dtype) if one in literals else None for one in node.inputs],
            )
        return dtype

    def _operand(self, node: Node, index: int, dtype: DType, line: Line, before: bool) -> str:
        value = node.inputs[index]
        if line.selects and index == 0:
            dtype = DType.BOOL
        if value not in self.chain.literals:
            return loaded(self.names[value, before], tensor_of(value).dtype, wraps=line.wraps)
        given = self.chain.literals[value]
        if op_of(node).params[index].constant:
            return str(given) if isinstance(given, int) else ""
        array = _array(given, dtype)
        if array.size == 1:
            return literal(array.reshape(()), dtype, wraps=line.wraps)
        return loaded(self._table(array, dtype, before), dtype, wraps=line.wraps)

    def _fold(self, node: Node) -> Fields:
        fold = op_of(node).kernel
        assert isinstance(fold, Fold)
        value, dtype = node.inputs[0], tensor_of(node.inputs[0]).dtype
        source = DType.F64 if fold.sums and dtype.is_float else dtype
        kind = computed(source, wraps=fold.sums)
        element = f"({kind}){loaded(self.names[value, True], dtype)}"
        name = f"v{len(self.names)}"
        self.names[node.outputs[0], False] = name
        self.dtypes.add(dtype.value)
        start = "0" if fold.start == "zero" else bound(dtype, lowest=fold.start == "lowest")
        return {
            "type": kind,
            "start": start,
            "step": fold.expression.format("sum", element),
            "dtype": dtype.value,
            "name": name,
            "end": converted(fold.end.format("sum", n="folded"), source, dtype),
        }

    def _functions(self, fold: Fields | None) -> Fields:
        """Return which functions of C's library are called, with one argument and with two."""
        lines = [*self.lines[True], *self.lines[False], *map(str, (fold or {}).values())]
        called = {name for line in lines for name in re.findall(r"real_(\w+)\(", line)} - _ALWAYS
        return {"functions": sorted(called - _PAIRS), "pairs": sorted(called & _PAIRS)}


def _array(given: Literal, dtype: DType) -> Array:
    """Return a literal as the reference would take it beside a value of `dtype`."""
    return same_dtype(np.zeros((), to_numpy(dtype)), given)[1]


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader(__name__.rpartition(".")[0], ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("kernel.cu.j2")
