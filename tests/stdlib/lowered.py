"""Runs the lowerings of ops in ONNX Runtime and compares them with the references."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from headrace.compiler.onnx_emit import Sheet, value_info, write_op
from headrace.dsl.types import DType, TensorType
from headrace.stdlib.op import Item, Op, Operand
from tests.stdlib.samples import Given, Sizes

ROWS = 3
CHOOSING = ("core.max", "core.min", "core.where", "math.clip", "math.maximum", "math.minimum")
ZEROS_LOSE_THEIR_SIGN = frozenset((*CHOOSING, "math.trunc", "nn.relu"))
"""ONNX Runtime's Where, Max and Min may give 0 for -0."""


def results_of(op: Op, values: Sequence[Any]) -> tuple[Item, ...]:
    result: Any = op.reference(*values)
    return result if len(op.results) > 1 else (result,)


@dataclass
class _Call:
    op: Op
    rows: list[list[Any]]  # the arguments of each row
    batched: bool
    outputs: tuple[str, ...]
    label: str


@dataclass
class Model:
    """One ONNX model of many ops, side by side; sizes above `largest_known` go by a name."""

    opset: int
    largest_known: float = math.inf
    sheet: Sheet = field(init=False)
    calls: list[_Call] = field(default_factory=list[_Call])
    _inputs: list[onnx.ValueInfoProto] = field(default_factory=list[onnx.ValueInfoProto])
    _outputs: list[onnx.ValueInfoProto] = field(default_factory=list[onnx.ValueInfoProto])
    _feeds: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        self.sheet = Sheet(self.opset, ())

    def add(self, op: Op, givens: Sequence[Given], batched: Sequence[bool], label: str) -> None:
        """Write a call; `batched` says which arguments get rows. Raises Decline as lowerings do."""
        sizes = Sizes(self.largest_known)
        kinds = sizes.result_types(op, givens)
        written = len(self.sheet.nodes)
        rows = [[given.value for given in givens] for _ in range(ROWS)]
        operands: list[Operand] = []
        inputs: list[onnx.ValueInfoProto] = []
        feeds: dict[str, Any] = {}
        for i, given in enumerate(givens):
            argument = sizes.argument(given)
            if given.literal:
                operands.append(Operand(argument.type, None, given.value))
                continue
            assert isinstance(argument.type, TensorType)
            name = self.sheet.name(f"x{i}")
            operands.append(Operand(argument.type, name, None, batched[i]))
            if batched[i]:
                for number, row in enumerate(rows):
                    row[i] = moved(given.value, number)
                feeds[name] = np.stack([np.asarray(row[i]) for row in rows])
            else:
                feeds[name] = np.asarray(given.value)
            inputs.append(value_info(name, argument.type, 0 if batched[i] else None))
        try:
            names = write_op(self.sheet, op, operands, kinds)
        except BaseException:
            del self.sheet.nodes[written:]
            raise
        whole = any(batched)
        for name, kind in zip(names, kinds, strict=True):
            assert isinstance(kind, TensorType)
            self._outputs.append(value_info(name, kind, 0 if whole else None))
        self._inputs += inputs
        self._feeds |= feeds
        self.calls.append(_Call(op, rows if whole else rows[:1], whole, names, label))

    def check(self) -> None:
        """Run the model and compare every result, row by row, with that of the reference."""
        results = self.run()
        for call in self.calls:
            for number, row in enumerate(call.rows):
                wanted = results_of(call.op, row)
                for name, want in zip(call.outputs, wanted, strict=True):
                    got = results[name][number] if call.batched else results[name]
                    same(np.asarray(want), np.asarray(got), call.op, call.label)

    def run(self) -> dict[str, Any]:
        """Return the results by the names of their tensors."""
        graph = helper.make_graph(
            self.sheet.nodes, "ops", self._inputs, self._outputs, self.sheet.initializers()
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = [name for call in self.calls for name in call.outputs]
        return dict(zip(names, session.run(names, self._feeds), strict=True))


def moved(value: Any, row: int) -> Any:
    """Return other elements of the same shape for another row."""
    flat = np.asarray(value).reshape(-1)
    return np.roll(flat[:: -1 if row == 2 else 1], row).reshape(np.shape(value))


def is_tensor(given: Given) -> bool:
    """Return whether an argument can be a tensor of an ONNX graph."""
    if given.literal:
        return True
    kind = Sizes(float("inf")).of(given.value)
    return isinstance(kind, TensorType) and kind.dtype not in (DType.STRING, DType.BYTES)


def same(want: Any, got: Any, op: Op, label: str) -> None:
    """Require equal bits (NaN is NaN) of an exact op, else values within the op's tolerance."""
    assert got.dtype == want.dtype, label
    assert got.shape == want.shape, label
    if want.dtype.kind == "f" and not op.exact:
        tolerance = op.tolerance * (1 if want.dtype == np.float32 else 1e-6)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=label)
        return
    equal = got == want
    if want.dtype.kind == "f":
        if op.name not in ZEROS_LOSE_THEIR_SIGN:
            equal &= np.signbit(got) == np.signbit(want)
        equal |= np.isnan(got) & np.isnan(want)
    assert equal.all(), f"{label}: {got} is not {want}"
