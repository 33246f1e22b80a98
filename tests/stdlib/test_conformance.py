"""What holds of every op of the catalog, tried on the samples that each op declares."""

import math
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from headrace.stdlib.catalog import load_catalog
from headrace.stdlib.op import Decline, Op, OpTypeError
from tests.stdlib.lowered import Model, is_tensor, results_of
from tests.stdlib.samples import Given, Sizes, samples_of

OPS = list(load_catalog())
LOWERED = [op for op in OPS if op.lowering is not None]
NEWEST = 21
WITHOUT_BATCH = ("nn.nms",)  # rows would differ in size
BY_THE_LOUDEST = ("audio.stft", "audio.power")  # beside 1e30 nothing else is told apart
SIZES: "tuple[float, ...]" = (math.inf,)
NAMES: "tuple[float, ...]" = (1, 3, 4)
"""The largest size that is known when compiling, the next where an op needs to know more."""
SPECIAL = np.array([0.0, -0.0, np.nan, 2.5, np.inf, -1.0, -0.0, -np.inf, 0.5, 1e30, -2.5])


def name_of(op: Op) -> str:
    return op.name


@pytest.mark.parametrize("op", OPS, ids=name_of)
def test_the_shape_rule_says_what_the_reference_gives(op: Op) -> None:
    holds_rule(op, (math.inf,))
    holds_rule(op, (4, 1))


def holds_rule(op: Op, largest_known: tuple[float, ...]) -> None:
    tried = 0
    for (number, givens), limit in product(enumerate(samples_of(op)), largest_known):
        sizes = Sizes(limit)
        try:
            kinds = sizes.result_types(op, givens)
        except OpTypeError:
            if limit == math.inf:
                raise
            continue  # a size must be known here; other samples do without
        tried += 1
        results = results_of(op, [given.value for given in givens])
        assert len(kinds) == len(results) == len(op.results)
        for kind, result in zip(kinds, results, strict=True):
            assert sizes.match(kind, result), f"sample {number}: {result!r} is no {kind}"
    assert tried


@pytest.mark.parametrize("op", OPS, ids=name_of)
def test_the_reference_leaves_its_arguments_as_they_are(op: Op) -> None:
    for before, after in zip(samples_of(op), samples_of(op), strict=True):
        for given in after:
            if isinstance(given.value, np.ndarray):
                given.value.flags.writeable = False
        results_of(op, [given.value for given in after])
        for one, other in zip(before, after, strict=True):
            if isinstance(one.value, np.ndarray):
                np.testing.assert_array_equal(one.value, other.value)


@pytest.mark.parametrize("op", OPS, ids=name_of)
def test_an_op_is_documented_and_its_parameters_can_be_given_by_position(op: Op) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z0-9_]+", op.name)
    assert re.fullmatch(r"[A-Z].*\.", op.summary)
    assert op.example
    for param in op.params:
        assert re.fullmatch(r"[\"A-Z0-9].*\.", param.doc), param.name
    positional = [param for param in op.params if not param.keyword]
    assert not any(param.variadic for param in op.params[:-1])
    optional = [param.has_default or param.variadic for param in positional]
    assert optional == sorted(optional), "a parameter without a default follows one with"
    assert all(param.has_default for param in op.params if param.keyword)


def batched(givens: list[Given], mode: str) -> list[bool]:
    """Say which arguments have the batch axis: none, all, the first or the last made one."""
    made = [i for i, given in enumerate(givens) if not given.literal]
    chosen = {"alone": [], "batch": made, "first": made[:1], "last": made[-1:]}[mode]
    return [i in chosen for i in range(len(givens))]


@pytest.mark.parametrize("op", LOWERED, ids=name_of)
def test_the_lowering_gives_what_the_reference_gives(op: Op) -> None:
    for mode, opset, largest_known in (
        ("alone", 18, SIZES),
        ("alone", 13, NAMES),
        ("batch", 13, SIZES),
        ("batch", 21, NAMES),
        ("first", 21, SIZES),
        ("last", 13, NAMES),
    ):
        holds_lowering(op, mode, opset, largest_known)


def holds_lowering(op: Op, mode: str, opset: int, largest_known: tuple[float, ...]) -> None:
    tries = product((opset, NEWEST), largest_known)
    models = (lowered_samples(op, mode, version, limit) for version, limit in tries)
    written = next((model for model in models if model.calls), None)
    if written is None and mode != "alone":
        assert op.name in WITHOUT_BATCH
        return
    assert written is not None, "no sample is lowered"
    written.check()


@pytest.mark.parametrize("op", [op for op in LOWERED if op.name not in BY_THE_LOUDEST], ids=name_of)
def test_special_numbers_come_out_of_the_lowering_as_of_the_reference(op: Op) -> None:
    samples = [[special(given) for given in givens] for givens in samples_of(op)]
    lowered_samples(op, "alone", NEWEST, math.inf, samples).check()


def special(given: Given) -> Given:
    """Put zeros of both signs, NaN, infinities and the like in the place of drawn floats."""
    value = given.value
    if given.literal or not isinstance(value, np.ndarray | np.generic) or value.dtype.kind != "f":
        return given
    with np.errstate(over="ignore"):
        return replace(given, value=np.resize(SPECIAL, value.shape).astype(value.dtype))


def lowered_samples(
    op: Op,
    mode: str,
    opset: int,
    largest_known: float,
    samples: "list[list[Given]] | None" = None,
) -> Model:
    """Write the samples that the op's rule takes and its lowering does not decline."""
    model = Model(opset, largest_known)
    for number, givens in enumerate(samples_of(op) if samples is None else samples):
        made = any(not given.literal for given in givens)
        if not (made and all(is_tensor(given) for given in givens)):
            continue
        try:
            model.add(op, givens, batched(givens, mode), f"sample {number}")
        except Decline:
            continue
        except OpTypeError:
            if largest_known == math.inf:
                raise
            continue  # a size must be known here; other samples do without
    return model
