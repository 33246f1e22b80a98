"""Greedy CTC decoding: of a class at each time step to a text."""

from collections.abc import Sequence

import numpy as np

from ...dsl.dims import Dims
from ...dsl.types import DType, TensorType, Type
from ..op import Argument, Array, Item, Literal, Op, Param, Sample
from ..rules import (
    number,
    of_dtype,
    ranked,
    same_size,
    scalar_integer,
)
from ..values import array, integer

CHARSET = Param("charset", "The text of each class, string[K]; that of `blank` is not used.")
BLANK = Param("blank", "The class that stands for nothing.", has_default=True, default=0)
RESULTS: tuple[Type, ...] = (TensorType(DType.STRING), TensorType(DType.F32))


def greedy_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    found = of_dtype(arguments[0], "p", dims, DType.F32)
    ranked(found, "p", 2, form="f32[T, K]")
    charset = of_dtype(arguments[1], "charset", dims, DType.STRING)
    ranked(charset, "charset", 1, form="string[K]")
    same_size(found.dims[1], charset.dims[0], "charset", "as many texts as `p` has classes", dims)
    scalar_integer(arguments[2], "blank", dims)
    return RESULTS


def greedy(p: Item, charset: Item, blank: "Item | Literal") -> tuple[str, Array]:
    scores = array(p)
    if scores.shape[0] == 0:
        return "", np.zeros((), np.float32)
    if scores.shape[1] == 0:
        raise ValueError(f"`p` of shape {list(scores.shape)} has no classes")
    ids = np.argmax(scores, axis=1)
    best = np.take_along_axis(scores, ids[:, None], 1)[:, 0]
    return collapse(ids, best, charset, blank)


def collapse_types(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:
    ids = ranked(number(arguments[0], "ids", dims), "ids", 1, form="integers [T]")
    of_dtype(arguments[0], "ids", dims, DType.I64, DType.I32)
    scores = ranked(of_dtype(arguments[1], "p", dims, DType.F32), "p", 1, form="f32[T]")
    same_size(ids.dims[0], scores.dims[0], "p", "as many scores as there are `ids`", dims)
    charset = of_dtype(arguments[2], "charset", dims, DType.STRING)
    ranked(charset, "charset", 1, form="string[K]")
    scalar_integer(arguments[3], "blank", dims)
    return RESULTS


def collapse(ids: Item, p: Item, charset: Item, blank: "Item | Literal") -> tuple[str, Array]:
    classes = np.asarray(array(ids), np.int64)
    kept = classes != integer(blank)
    kept[1:] &= classes[1:] != classes[:-1]
    if not kept.any():
        return "", np.zeros((), np.float32)
    texts = array(charset)
    chosen = classes[kept]
    if chosen.min() < 0 or chosen.max() >= texts.shape[0]:
        raise ValueError(f"`charset` has {texts.shape[0]} texts, but {chosen.max()} was read")
    mean = np.asarray(array(p), np.float64)[kept].mean()
    return "".join(texts[chosen].tolist()), np.asarray(mean, np.float32)


def greedy_samples(random: np.random.Generator) -> Sequence[Sample]:
    charset = np.array(["", "a", "b", "c", " "], object)
    p = random.random((9, 5)).astype(np.float32)
    blank = np.zeros((3, 5), np.float32)
    return [(p, charset), (p, charset, 4), (blank, charset), (p[:0], charset)]


def collapse_samples(random: np.random.Generator) -> Sequence[Sample]:
    charset = np.array(["", "a", "b", "c", " "], object)
    ids = np.array([0, 1, 1, 0, 1, 2, 4, 4])
    p = random.random(8).astype(np.float32)
    return [(ids, p, charset), (ids.astype(np.int32), p, charset, 1), (ids[:0], p[:0], charset)]


OPS = (
    Op(
        name="text.ctc_greedy",
        summary="Reads the likeliest class at each step, leaves out repeats and blanks, and joins "
        "the texts of the rest. `score` is the mean of the values that were read (probabilities, "
        "if that is what `p` holds), 0 if nothing was.",
        params=(
            Param("p", "Probabilities or logits, f32[T, K]."),
            CHARSET,
            BLANK,
        ),
        results=("text", "score"),
        types=greedy_types,
        reference=greedy,
        example="line, score = text.ctc_greedy(p, charset)",
        samples=greedy_samples,
    ),
    Op(
        name="text.ctc_collapse",
        summary="Does what `ctc_greedy` does after the likeliest classes have been found, which "
        "can so be done where the network runs.",
        params=(
            Param("ids", "The class of each step, i64[T]."),
            Param("p", "Its probability, f32[T]."),
            CHARSET,
            BLANK,
        ),
        results=("text", "score"),
        types=collapse_types,
        reference=collapse,
        example="line, score = text.ctc_collapse(argmax(p), max(p, axis = -1), charset)",
        samples=collapse_samples,
    ),
)
