"""What holds of every op of the catalog, tried on the samples that each op declares."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from headrace.compiler.onnx_emit import Sheet, value_info, write_op
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
from headrace.stdlib.catalog import load_catalog
from headrace.stdlib.dtypes import from_numpy, to_numpy
from headrace.stdlib.op import Argument, Decline, Op, Operand, OpTypeError, Param
from headrace.stdlib.values import array

OPS = list(load_catalog())
LOWERED = [op for op in OPS if op.lowering is not None]
ROWS = 3


@dataclass(frozen=True)
class Given:
    """One argument of a sample: a literal, or a value made at run time."""

    param: Param
    value: object
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


def samples(op: Op) -> list[list[Given]]:
    assert op.samples is not None, f"{op.name} declares no samples"
    return [bind(op, sample) for sample in op.samples(np.random.default_rng(7))]


class Sizes:
    """Gives axes of equal size one symbol, and checks what a rule says against real sizes."""

    def __init__(self, largest_known: float) -> None:
        self.dims = Dims()
        self._largest_known = largest_known
        self._symbols: dict[int, DimVar] = {}
        self.values: dict[DimVar, int] = {}

    def dim(self, size: int) -> Dim:
        if size <= self._largest_known:
            return size
        if size not in self._symbols:
            self._symbols[size] = self.dims.rigid(f"N{size}")
            self.values[self._symbols[size]] = size
        return self._symbols[size]

    def of(self, value: object) -> Type:
        if isinstance(value, list):
            items = [self.of(item) for item in value]
            if all(item == items[0] for item in items):
                return ListType(items[0])
            first = items[0]
            assert isinstance(first, TensorType)
            return ListType(TensorType(first.dtype, (ANY_DIM,) * len(first.dims)))
        if isinstance(value, str | bytes):
            return TensorType(DType.STRING if isinstance(value, str) else DType.BYTES)
        actual = array(value)
        dtype = DType.STRING if actual.dtype == object else from_numpy(actual.dtype)
        assert dtype is not None
        return TensorType(dtype, tuple(self.dim(size) for size in actual.shape))

    def argument(self, given: Given) -> Argument:
        if not given.literal:
            return Argument(self.of(given.value))
        kind: Type = TensorType(DType.I64)  # of a constant only the literal is looked at
        if not given.param.constant and given.value is not None:
            kind = Sizes(math.inf).of(given.value)
        return Argument(kind, True, given.value)

    def agrees(self, dim: Dim, size: int) -> bool:
        """Return whether a dimension can have a size; a fresh one takes the first it is given."""
        resolved = self.dims.resolve(dim)
        if isinstance(resolved, DimVar) and resolved not in self.values:
            self.values[resolved] = size
        try:
            return isinstance(resolved, DimAny) or self.evaluate(resolved) == size
        except KeyError:
            return True

    def evaluate(self, dim: Dim) -> int:
        match dim:
            case int():
                return dim
            case DimVar():
                return self.values[dim]
            case DimArith(op, left, right):
                a, b = self.evaluate(left), self.evaluate(right)
                return {"+": a + b, "-": a - b, "*": a * b, "/": a // b, "%": a % b}[op]
            case _:
                raise KeyError(dim)


def result_types(op: Op, givens: Sequence[Given], sizes: Sizes) -> tuple[Type, ...]:
    return op.types([sizes.argument(given) for given in givens], sizes.dims)


def run(op: Op, values: Sequence[object]) -> tuple[object, ...]:
    result = op.reference(*values)
    return result if len(op.results) > 1 else (result,)


def matches(kind: Type, value: object, sizes: Sizes) -> bool:
    if isinstance(kind, ListType):
        assert isinstance(value, list)
        within = kind.maximum is None or len(value) <= kind.maximum
        return within and all(matches(kind.item, item, sizes) for item in value)
    assert isinstance(kind, TensorType)
    if isinstance(value, str | bytes):
        wanted = DType.STRING if isinstance(value, str) else DType.BYTES
        return kind == TensorType(wanted)
    assert isinstance(value, np.ndarray | np.generic), f"{value!r} is no array"
    return (
        value.dtype == to_numpy(kind.dtype)
        and len(value.shape) == len(kind.dims)
        and all(sizes.agrees(d, s) for d, s in zip(kind.dims, value.shape, strict=True))
    )


@pytest.mark.parametrize("known", [(math.inf,), (4, 1)], ids=["sizes", "names"])
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_the_shape_rule_says_what_the_reference_gives(op: Op, known: tuple[float, ...]) -> None:
    tried = 0
    for (number, givens), largest_known in product(enumerate(samples(op)), known):
        sizes = Sizes(largest_known)
        try:
            kinds = result_types(op, givens, sizes)
        except OpTypeError:
            if largest_known == math.inf:
                raise
            continue  # a size must be known here; other samples do without
        tried += 1
        results = run(op, [given.value for given in givens])
        assert len(kinds) == len(results) == len(op.results)
        for kind, result in zip(kinds, results, strict=True):
            shown = getattr(result, "shape", result), getattr(result, "dtype", None)
            assert matches(kind, result, sizes), f"sample {number}: {kind} but {shown}"
    assert tried


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_the_reference_leaves_its_arguments_as_they_are(op: Op) -> None:
    for before, after in zip(samples(op), samples(op), strict=True):
        for given in after:
            if isinstance(given.value, np.ndarray):
                given.value.flags.writeable = False
        run(op, [given.value for given in after])
        for one, other in zip(before, after, strict=True):
            if isinstance(one.value, np.ndarray):
                np.testing.assert_array_equal(one.value, other.value)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_an_op_is_documented(op: Op) -> None:
    assert op.summary.endswith(".")
    assert op.summary[0].isupper()
    assert re.fullmatch(r"[a-z]+\.[a-z0-9_]+", op.name)
    assert op.example
    for param in op.params:
        assert param.doc.endswith("."), param.name
    assert [p.variadic for p in op.params[:-1]] == [False] * (len(op.params) - 1)


@dataclass(frozen=True)
class Case:
    """A sample written into a model: its inputs for each row and where its results come out."""

    number: int
    rows: list[list[object]]
    feeds: dict[str, np.ndarray]
    outputs: tuple[str, ...]


def moved(value: object, row: int) -> object:
    """Return other elements of the same shape for another row."""
    if not isinstance(value, np.ndarray | np.generic):
        return value
    return np.roll(np.asarray(value).reshape(-1)[:: -1 if row == 2 else 1], row).reshape(
        value.shape
    )


def batched_givens(givens: Sequence[Given], mode: str) -> list[bool]:
    """Say which arguments have the batch axis: none, all, the first or the last made one."""
    made = [i for i, given in enumerate(givens) if not given.literal]
    chosen = {"alone": [], "batch": made, "first": made[:1], "last": made[-1:]}[mode]
    return [i in chosen for i in range(len(givens))]


def write(op: Op, mode: str, opset: int) -> Iterator[tuple[Sheet, list, list, Case]]:
    """Write all samples that the op lowers into one sheet; declined ones are left out."""
    sheet = Sheet(opset, ())
    inputs: list[onnx.ValueInfoProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    for number, givens in enumerate(samples(op)):
        sizes = Sizes(math.inf)
        arguments = [sizes.argument(given) for given in givens]
        kinds = op.types(arguments, sizes.dims)
        batched = batched_givens(givens, mode)
        operands: list[Operand] = []
        rows = [[given.value for given in givens] for _ in range(ROWS)]
        feeds: dict[str, np.ndarray] = {}
        infos: list[onnx.ValueInfoProto] = []
        for i, (given, argument) in enumerate(zip(givens, arguments, strict=True)):
            if given.literal:
                operands.append(Operand(argument.type, None, given.value))
                continue
            if not isinstance(argument.type, TensorType):
                break
            if argument.type.dtype in (DType.STRING, DType.BYTES):
                break
            name = sheet.name(f"s{number}_x{i}")
            operands.append(Operand(argument.type, name, None, batched[i]))
            if batched[i]:
                for row in range(ROWS):
                    rows[row][i] = moved(given.value, row)
                feeds[name] = np.stack([np.asarray(row[i]) for row in rows])
            else:
                feeds[name] = np.asarray(given.value)
            infos.append(value_info(name, argument.type, 0 if batched[i] else None, "batch"))
        if len(operands) < len(givens) or not feeds or (mode != "alone" and not any(batched)):
            continue
        written = len(sheet.nodes)
        try:
            names = write_op(sheet, op, operands, kinds)
        except Decline:
            del sheet.nodes[written:]
            continue
        inputs += infos
        for name, kind in zip(names, kinds, strict=True):
            assert isinstance(kind, TensorType)
            outputs.append(value_info(name, kind, None if mode == "alone" else 0, "batch"))
        yield sheet, inputs, outputs, Case(number, rows, feeds, names)


@pytest.mark.parametrize("opset", [13, 18, 21])
@pytest.mark.parametrize("mode", ["alone", "batch", "first", "last"])
@pytest.mark.parametrize("op", LOWERED, ids=lambda op: op.name)
def test_the_lowering_gives_what_the_reference_gives(op: Op, mode: str, opset: int) -> None:
    written = list(write(op, mode, opset))
    if not written:
        assert mode != "alone", "no sample is ever lowered"
        pytest.skip("no sample with such an argument is lowered")
    sheet, inputs, outputs, _ = written[-1]
    graph = helper.make_graph(sheet.nodes, op.name, inputs, outputs, sheet.initializers())
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = {name: value for *_, case in written for name, value in case.feeds.items()}
    names = [name for *_, case in written for name in case.outputs]
    results = dict(zip(names, session.run(names, feeds), strict=True))
    for *_, case in written:
        for row in range(1 if mode == "alone" else ROWS):
            expected = run(op, case.rows[row])
            for name, want in zip(case.outputs, expected, strict=True):
                got = results[name] if mode == "alone" else results[name][row]
                check_equal(np.asarray(want), np.asarray(got), op, f"sample {case.number}")


def check_equal(want: np.ndarray, got: np.ndarray, op: Op, where: str) -> None:
    assert got.dtype == want.dtype, where
    assert got.shape == want.shape, where
    if want.dtype.kind == "f" and not op.exact:
        tolerance = 1e-6 if want.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=where)
        return
    same = got == want
    if want.dtype.kind == "f":
        same &= np.signbit(got) == np.signbit(want)
        same |= np.isnan(got) & np.isnan(want)
    assert same.all(), f"{where}: {got} is not {want}"
