"""Non-maximum suppression: of boxes that overlap, the one with the highest score."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..constants import constant_integer
from ..dtypes import to_onnx
from ..lowering import integers, nan_flags, reduce, unsqueeze
from ..op import (
    Argument,
    Array,
    Decline,
    Emitter,
    Item,
    Literal,
    Op,
    Operand,
    OpTypeError,
    Param,
    Sample,
)
from ..rules import of_dtype, ranked, same_size
from ..values import array

MOST = np.iinfo(np.int64).max


def types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    boxes, scores, overlap, min_score, max_boxes = arguments
    found = ranked(of_dtype(boxes, "boxes", dims, DType.F32), "boxes", 2, form="f32[N, 4]")
    same_size(found.dims[1], 4, "boxes", f"f32[N, 4], not {found}", dims)
    given = ranked(of_dtype(scores, "scores", dims, DType.F32), "scores", 1, form="f32[N]")
    same_size(found.dims[0], given.dims[0], "scores", "one score a box", dims)
    if not 0 <= constant_number(overlap, "max_overlap") <= 1:
        raise OpTypeError("max_overlap", f"0 to 1, not {overlap.literal!r}")
    if min_score.literal is not None:
        constant_number(min_score, "min_score")
    if max_boxes.literal is not None and constant_integer(max_boxes, "max_boxes") < 1:
        raise OpTypeError("max_boxes", f"at least 1, not {max_boxes.literal!r}")
    return (TensorType(DType.I64, (dims.fresh("n"),)),)


def constant_number(argument: Argument, name: str) -> float:
    literal = argument.literal
    if isinstance(literal, bool) or not isinstance(literal, int | float):
        raise OpTypeError(name, f"a number, not {literal!r}")
    return float(literal)


def reference(
    boxes: Item, scores: Item, max_overlap: float, min_score: "float | None", max_boxes: Literal
) -> Array:
    corners, rank = np.asarray(array(boxes), np.float32), np.asarray(array(scores), np.float32)
    least = np.float32(-np.inf if min_score is None else min_score)
    wanted = len(rank) if max_boxes is None else int(np.asarray(max_boxes))
    order = np.argsort(-rank, kind="stable")  # of equal scores the first comes first
    order = order[rank[order] > least]
    kept: list[int] = []
    while len(order) and len(kept) < wanted:
        best, others = order[0], order[1:]
        kept.append(int(best))
        order = others[~overlaps(corners[best], corners[others], np.float32(max_overlap))]
    return np.array(kept, np.int64)


def overlaps(
    one: NDArray[np.float32], many: NDArray[np.float32], most: np.float32
) -> NDArray[np.bool_]:
    """Say which boxes share more than a part of the joint area with one.

    In the order of ONNX Runtime's kernel, step by step in f32. Boxes without area share none.
    """
    low, high = np.minimum(one[:2], one[2:]), np.maximum(one[:2], one[2:])
    lows, highs = np.minimum(many[:, :2], many[:, 2:]), np.maximum(many[:, :2], many[:, 2:])
    with np.errstate(all="ignore"):
        sides = np.minimum(high, highs) - np.maximum(low, lows)
        shared = sides[:, 0] * sides[:, 1]
        area = (high[0] - low[0]) * (high[1] - low[1])
        areas = (highs[:, 0] - lows[:, 0]) * (highs[:, 1] - lows[:, 1])
        joint = area + areas - shared
        apart = np.any(sides <= 0, axis=1) | (shared <= 0) | (area <= 0) | (areas <= 0)
        return ~(apart | (joint <= 0)) & (shared / joint > most)


def lower(emit: Emitter, operands: Sequence[Operand], _: Sequence[Type]) -> tuple[str, ...]:
    if emit.batched:
        raise Decline("rows keep different numbers of boxes")
    boxes, scores, overlap, min_score, max_boxes = operands
    corners = emit.tensor(boxes)
    # A box with NaN overlaps none, as one without area does; the kernel leaves it open.
    (flags,) = nan_flags(emit, corners)
    any_nan = reduce(emit, "ReduceMax", flags, [1], keepdims=True)
    (no_box,) = emit.node("Cast", any_nan, to=to_onnx(DType.BOOL))
    (corners,) = emit.node("Where", [no_box, emit.constant(np.zeros(4, np.float32)), corners])
    least = -np.inf if min_score.literal is None else min_score.literal
    most = MOST if max_boxes.literal is None else max_boxes.literal
    (chosen,) = emit.node(
        "NonMaxSuppression",
        [
            unsqueeze(emit, corners, [0]),
            unsqueeze(emit, emit.tensor(scores), [0, 1]),
            emit.constant(np.array([most], np.int64)),
            emit.constant(np.array([overlap.literal], np.float32)),
            emit.constant(np.array([least], np.float32)),
        ],
    )
    # Its rows are (batch, class, box).
    box = emit.node("Gather", [chosen, emit.constant(np.array(2, np.int64))], axis=1)
    return emit.node("Reshape", [*box, integers(emit, [-1])])


def samples(random: np.random.Generator) -> Sequence[Sample]:
    corner = random.uniform(0, 40, (30, 2))
    boxes = np.concatenate([corner, corner + random.uniform(5, 30, (30, 2))], 1)
    boxes = boxes.astype(np.float32)
    scores = random.integers(0, 8, 30).astype(np.float32) / np.float32(8)
    return [
        (boxes, scores),
        (boxes[:, [2, 3, 0, 1]].copy(), scores, 0.3),
        (boxes, scores, 0.0, 0.25),
        (boxes, scores, 0.7, None, 5),
        (boxes[:1], scores[:1]),
        (boxes, scores, 1, 2),
        (boxes[:0], scores[:0]),
    ]


OP = Op(
    name="nn.nms",
    summary="Gives the indices of the boxes to keep, the highest score first: a box goes if the "
    "area it shares with one that is kept is more than `max_overlap` of their joint area. Of "
    "equal scores the first comes first; a box without area or with NaN overlaps none; a score "
    "of NaN or minus infinity is never kept.",
    params=(
        Param("boxes", "Boxes, f32[N, 4]: two opposite corners x, y, x, y."),
        Param("scores", "A score a box, f32[N]."),
        Param("max_overlap", "The most that kept boxes share, 0 to 1.", True, True, default=0.5),
        Param("min_score", "What a score must be above.", True, has_default=True),
        Param("max_boxes", "The most boxes to keep.", True, has_default=True),
    ),
    results=("indices",),
    types=types,
    reference=reference,
    lowering=lower,
    example="kept = nn.nms(rects, scores, max_overlap = 0.5)",
    samples=samples,
)
