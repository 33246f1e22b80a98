"""Sizes of zero, through every op: refused in words, or a result of the type that was promised."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

from headrace.stdlib.catalog import load_catalog
from headrace.stdlib.op import Decline, Item, Op, OpTypeError
from tests.stdlib.lowered import Model, is_tensor, results_of
from tests.stdlib.samples import Given, Sizes, samples_of

OPS = list(load_catalog())
LIMITS = (math.inf, -1)
"""Sizes are known when compiling, or none is."""


def emptied(op: Op) -> list[list[Given]]:
    """Cut each size that occurs in a sample to zero, in all arguments that have it."""
    found: list[list[Given]] = []
    for givens in samples_of(op):
        arrays = [given.value for given in givens if is_array(given)]
        for size in sorted({size for array in arrays for size in array.shape} - {0}):
            found.append([cut(given, size) if is_array(given) else given for given in givens])
    return found


def is_array(given: Given) -> bool:
    return isinstance(given.value, np.ndarray) and not given.literal


def cut(given: Given, size: int) -> Given:
    array: Any = given.value
    kept = tuple(slice(0) if one == size else slice(None) for one in array.shape)
    return replace(given, value=array[kept])


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_a_size_of_zero_is_refused_or_gives_what_the_rule_says(op: Op) -> None:
    models = [Model(21, limit) for limit in LIMITS]
    for givens in emptied(op):
        label = f"{[np.shape(given.value) for given in givens if is_array(given)]}"
        try:
            Sizes(math.inf).result_types(op, givens)
        except OpTypeError:
            continue  # what is not known when compiling is checked when it runs
        results = results_or_refusal(op, givens)
        for model in models:
            if isinstance(results, str):
                assert re.search(r"\d", results), f"{label}: `{results}` does not say what is empty"
                alone = Model(21, model.largest_known)
                if added(alone, op, givens, label):
                    with pytest.raises((Fail, InvalidArgument, RuntimeException)):
                        alone.run()
                continue
            sizes = Sizes(model.largest_known)
            try:
                kinds = sizes.result_types(op, givens)
            except OpTypeError:
                continue
            for kind, result in zip(kinds, results, strict=True):
                assert sizes.match(kind, result), f"{label}: {result!r} is no {kind}"
            added(model, op, givens, label)
    for model in models:
        if model.calls:
            model.check()


def results_or_refusal(op: Op, givens: list[Given]) -> "tuple[Item, ...] | str":
    """Return what the reference gives, or the words in which it refuses."""
    try:
        return results_of(op, [given.value for given in givens])
    except (ValueError, IndexError) as error:
        return str(error)


def added(model: Model, op: Op, givens: list[Given], label: str) -> bool:
    """Write the op's lowering into a model, if there is one that does not decline."""
    made = any(not given.literal for given in givens)
    if op.lowering is None or not (made and all(map(is_tensor, givens))):
        return False
    try:
        model.add(op, givens, [False] * len(givens), label)
    except (Decline, OpTypeError):
        return False
    return True
