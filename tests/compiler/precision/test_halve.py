"""Models in halves: the same at their borders, close inside, and in f32 where halves do not do."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from headrace.compiler.onnx_names import all_nodes
from headrace.compiler.precision.half_weights import rounded, weights_halved
from headrace.compiler.precision.halve import halved
from headrace.compiler.precision.kept import SENSITIVE
from headrace.compiler.precision.opsets import MOST_IN_BFLOAT16, at_least
from headrace.compiler.precision.report import Precision
from headrace.compiler.precision.with_onnxruntime import results
from headrace.stdlib.op import Decline
from tests.compiler.precision import models
from tests.compiler.precision.models import close, drawn, run, types_at_border

pytest.importorskip("onnxruntime")

MADE: list[tuple[Callable[[], onnx.ModelProto], tuple[int, ...]]] = [
    (models.conv_net, (2, 3, 16, 16)),
    (models.perceptron, (3, 64)),
    (models.transformer, (2, 5, 16)),
    (models.branching, (2, 8)),
    (models.counting, (1, 9)),
    (models.looping, (2, 8)),
]


@pytest.mark.parametrize(("make", "shape"), MADE, ids=[make.__name__ for make, _ in MADE])
def test_a_halved_model_keeps_its_border_and_is_close(
    make: Callable[[], onnx.ModelProto], shape: tuple[int, ...]
) -> None:
    plain = make()
    done = halved(plain, Precision.FP16, {})
    onnx.checker.check_model(done.model, full_check=True)
    assert types_at_border(done.model) == types_at_border(plain)
    rows = [drawn(*shape, seed=seed, scale=1.0) for seed in (6, 7)] + [-drawn(*shape, scale=1.0)]
    feeds = [{"x": row} for row in rows]
    found = results(rounded(done.model, Precision.FP16), feeds, ["y"])
    for one, (other,) in zip(run(plain, *rows), found, strict=True):
        close(other, one, atol=2e-2, rtol=1e-2)
    assert done.nodes > 0
    assert plain == make()  # what was given is not touched


@pytest.mark.parametrize(("make", "shape"), MADE, ids=[make.__name__ for make, _ in MADE])
def test_a_model_in_bf16_is_sound(
    make: Callable[[], onnx.ModelProto], shape: tuple[int, ...]
) -> None:
    """No processor runs it, so its types are held to, and what it would give is computed in f32."""
    plain = at_least(make(), MOST_IN_BFLOAT16)
    done = halved(plain, Precision.BF16, {})
    onnx.checker.check_model(done.model, full_check=True)
    assert types_at_border(done.model) == types_at_border(plain)
    row = drawn(*shape, seed=6, scale=1.0)
    ((other,),) = results(rounded(done.model, Precision.BF16), [{"x": row}], ["y"])
    close(other, run(plain, row)[0], atol=0.1, rtol=0.05)


def test_weights_are_half_as_large_and_kept_once() -> None:
    done = halved(models.perceptron(), Precision.FP16, {}).model
    assert [(one.data_type, list(one.dims)) for one in done.graph.initializer] == [
        (TensorProto.FLOAT16, [64, 64])
    ]
    assert [node.op_type for node in done.graph.node] == [
        "Cast",
        "MatMul",
        "Relu",
        "MatMul",
        "Cast",
    ]


def test_a_weight_that_is_read_in_both_forms_is_kept_in_both() -> None:
    done = halved(models.looping(), Precision.FP16, {})
    names = [one.name for one in done.model.graph.initializer]
    assert names == ["w", "v", "turns", "on"]
    assert [one.nodes for one in done.kept] == [("Pow `p`",)]
    (body,) = _graphs(done.model)[1:]
    casts = [node.input[0] for node in body.node if node.op_type == "Cast"]
    assert {"v", "w"} <= set(casts)  # those of the outside are cast inside


def test_sums_and_powers_stay_in_f32_with_their_reason() -> None:
    done = halved(models.transformer(), Precision.FP16, {})
    kept = {node.split(" ")[0]: one.reason for one in done.kept for node in one.nodes}
    assert kept == {
        "LayerNormalization": SENSITIVE["LayerNormalization"],
        "Softmax": SENSITIVE["Softmax"],
        "ReduceMean": SENSITIVE["ReduceMean"],
        "Add": "its constant 1e-12 is 0 in fp16",
    }


def test_what_fp16_has_no_number_for_stays_in_f32_and_is_named() -> None:
    plain, rows = models.overflowing(), [{"x": np.full((1, 8), 4.0, np.float32)}]
    done = halved(plain, Precision.FP16, {"big": 2e5})
    assert {one.nodes: one.reason for one in done.kept} == {
        ("Mul `big`", "Mul `little`"): "`big` goes to 2e+05, and fp16 to 65504",
        ("Add `far`", "Sub `y`"): "its constant `million` goes to 1e+06, and fp16 to 65504",
    }
    assert done.nodes == 1
    ((one,),) = results(plain, rows, ["y"])
    ((other,),) = results(rounded(done.model, Precision.FP16), rows, ["y"])
    close(other, one, rtol=1e-3)


def test_without_the_range_what_overflows_is_lost_and_bf16_holds_it() -> None:
    row = np.full((1, 8), 4.0, np.float32)
    model = halved(models.overflowing(), Precision.FP16, {}).model
    ((found,),) = results(rounded(model, Precision.FP16), [{"x": row}], ["y"])
    assert not np.isfinite(found).any()
    assert not halved(models.overflowing(), Precision.BF16, {}).kept


def test_sizes_are_counted_in_f32() -> None:
    done = halved(models.counting(), Precision.FP16, {}).model
    row = np.zeros((1, 4097), np.float32)
    ((places,),) = results(done, [{"x": row}], ["places"])
    assert places.tolist() == [4097.0]


def test_branches_are_gone_through() -> None:
    done = halved(models.branching(), Precision.FP16, {}).model
    halves = [one.data_type for graph in _graphs(done) for one in graph.initializer]
    assert halves.count(TensorProto.FLOAT16) == 3
    assert sum(node.op_type == "MatMul" for node in all_nodes(done.graph)) == 3


def test_a_model_of_integers_is_refused() -> None:
    plain = models.model("ints (int64[N] x) => (int64[N] y) { y = Add (x, x) }", {})
    with pytest.raises(Decline, match="nothing in it can be fp16"):
        halved(plain, Precision.FP16, {})


def test_weights_alone_are_halved_where_no_processor_has_the_ops() -> None:
    plain, row = models.conv_net(), drawn(2, 3, 16, 16, scale=1.0)
    done = weights_halved(plain, Precision.BF16)
    onnx.checker.check_model(done, full_check=True)
    assert done.ByteSize() < 0.65 * plain.ByteSize()
    ((one,), (other,)) = run(plain, row), run(done, row)
    close(other, one, atol=2e-2)
    with pytest.raises(Decline, match="no weights"):
        weights_halved(models.counting(), Precision.BF16)


def _graphs(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    from headrace.compiler.onnx_names import subgraphs

    inner = [graph for node in model.graph.node for graph in subgraphs(node)]
    return [model.graph, *inner]
