"""Ops that run once for all rows give what they give row by row."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from headrace.compiler.plan import OpSegment
from headrace.runtime.metrics import StageCell
from headrace.runtime.op_stage import OpStage
from headrace.runtime.rows import Constant, Rows, Value
from headrace.runtime.stage import StageError
from headrace.stdlib.catalog import load_catalog
from headrace.stdlib.op import Kernel, Op

OPS = [op for op in load_catalog() if op.kernel is not None and op.samples is not None]


def stage_of(op: Op) -> OpStage:
    segment = SimpleNamespace(name=op.name, results=op.results)
    return OpStage(cast("OpSegment", segment), op, 0)


def column(
    value: Any,
    constant: bool,
    count: int,
    random: np.random.Generator,  # Any: an item
) -> Rows:
    if constant or not isinstance(value, np.ndarray | np.generic | list | str | bytes):
        return Constant(value, value, count)
    if not isinstance(value, np.ndarray):
        return Rows.of(cast("list[Value]", [value] * count))
    mixed = [random.permutation(value.ravel()).reshape(value.shape) for _ in range(count)]
    return Rows.of(cast("list[Value]", mixed))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_rows_at_once_are_rows_one_by_one(op: Op) -> None:
    random = np.random.default_rng(5)
    assert op.samples is not None
    for sample in op.samples(random):
        given = [*sample, *(one.default for one in op.params[len(sample) :])]
        columns = [
            column(value, parameter.constant, 3, random)
            for value, parameter in zip(given, op.params, strict=True)
        ]
        alone = [[one.part(row, row + 1) for one in columns] for row in range(3)]
        try:
            wanted = [stage_of(op).run(one, 1, StageCell())[0].item(0) for one in alone]
        except StageError:
            with pytest.raises(StageError):
                stage_of(op).run(columns, 3, StageCell())
            continue
        (found,) = stage_of(op).run(columns, 3, StageCell())
        for row in range(3):
            got, want = np.asarray(found.item(row)), np.asarray(wanted[row])
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            same = got.tolist() == want.tolist() if got.dtype.hasobject else False
            assert same or got.tobytes() == want.tobytes()


def test_the_row_to_blame_is_found() -> None:
    op = next(one for one in OPS if one.name.endswith(".max"))
    rows = Rows.of([np.ones(2), np.ones(0), np.ones(2)])
    axis, keeps = Constant(None, None, 3), Constant(None, False, 3)
    with pytest.raises(StageError) as caught:
        stage_of(op).run([rows, axis, keeps], 3, StageCell())
    assert caught.value.row == 1


def test_most_run_at_once() -> None:
    at_once = [one.name for one in OPS if isinstance(one.kernel, Kernel) and one.kernel.exact]
    assert {"core.max", "core.min"} <= {one.name for one in OPS}
    assert len(at_once) > 15
