"""Requests out of the rows that came, and rows out of what is answered to them."""

from typing import Any

import numpy as np
import pytest

from headrace.runtime.triton_python.worker.triton_python_backend_utils import Tensor
from headrace.runtime.triton_python.worker.triton_python_backend_utils.batches import (
    Group,
    Layout,
    Reading,
    Writing,
)
from headrace.runtime.triton_python.worker.triton_python_backend_utils.contents import Malformed
from headrace.runtime.triton_python.worker.triton_python_backend_utils.grouping import (
    Stacking,
    requests_of,
)

TEXTS = np.array([[b"a"], [b"\xff"]], object)
RESPONSES: list[dict[str, Any]] = [
    {},
    {"y": np.ones((1, 2), np.float32)},
    {"y": np.zeros((3, 2), np.float32)},
    {"y": np.zeros((0, 2), np.float32)},
    {"y": np.zeros((1, 2), np.float64)},
    {"y": np.zeros((1, 3), np.float64)},
    {"y": np.zeros((1, 3), np.float64), "z": TEXTS[:1]},
    {"y": np.zeros((2, 3), np.float64), "z": TEXTS},
    {"y": np.zeros((2, 3), np.float64), "z": TEXTS[:1]},
    {"y": np.float32(4)},
    {"y": np.arange(8, dtype=np.int64)[::2]},
    {"y": np.arange(6, dtype=np.int8).reshape(2, 3).T},
    {"unasked": np.zeros((5, 1)), "y": np.ones((1, 2), np.float32)},
]


def sent(groups: list[Group], writing: Writing, reading: Reading) -> list[Group]:
    chunks: list[Any] = []
    header = writing.pack(groups, chunks)
    content = bytearray(b"".join(bytes(one) + bytes(-len(one) % 64) for one in chunks))
    return reading.unpack(b"head" + header, 4, content)


@pytest.mark.parametrize("seed", range(20))
def test_outputs_come_as_they_were_in_whatever_order_forms_meet(seed: int) -> None:
    random, writing, reading = np.random.default_rng(seed), Writing(), Reading()
    stacking = Stacking()
    for _ in range(3):
        picked = np.repeat(random.integers(0, len(RESPONSES), 6), random.integers(1, 4, 6))
        given = [RESPONSES[at] for at in picked]
        responses = [[Tensor(name, array) for name, array in one.items()] for one in given]
        groups = stacking.groups_of(responses, frozenset("yz"))
        for _ in range(3):  # told, told by its number, and remembered
            requests = requests_of(7, None, sent(groups, writing, reading))
            assert len(requests) == len(given)
            for request, wanted in zip(requests, given, strict=True):
                found = {one.name(): one.as_numpy() for one in request.inputs()}
                assert found.keys() == wanted.keys() - {"unasked"}
                for name, array in found.items():
                    assert array.dtype == wanted[name].dtype
                    assert array.shape == wanted[name].shape
                    assert array.tolist() == wanted[name].tolist()


def test_responses_of_equal_rows_share_tensors() -> None:
    one = [Tensor("y", np.ones((1, 2), np.float32))]
    three = [Tensor("y", np.ones((3, 2), np.float32))]
    [group] = Stacking().groups_of([one, one, three, one], frozenset("y"))
    assert group.counts == (1, 1, 3, 1)
    assert group.arrays[0].shape == (6, 2)


def test_requests_have_memory_of_their_own_that_a_model_may_write_to() -> None:
    writing, reading = Writing(), Reading()
    group = Group(Layout((("x", "FP32", (2,)),), True), (1, 1), [np.zeros((2, 2), np.float32)])
    for _ in range(3):
        first, second = requests_of(1, None, sent([group], writing, reading))
        assert not first.inputs()[0].as_numpy().any()
        first.inputs()[0].as_numpy()[:] = 7
        assert not second.inputs()[0].as_numpy().any()


def test_what_is_remembered_of_a_message_is_held_against_the_next() -> None:
    writing, reading = Writing(), Reading()
    group = Group(Layout((("x", "FP32", (4,)),), True), (1, 1), [np.zeros((2, 4), np.float32)])
    for _ in range(3):
        sent([group], writing, reading)
    header = writing.pack([group], [])
    assert reading.unpack(header, 0, bytearray(64))
    with pytest.raises(Malformed):
        reading.unpack(header, 0, bytearray(31))
    other = Group(Layout((("x", "FP32", (2,)),), True), (2, 2), [np.zeros((4, 2), np.float32)])
    again = Group(other.layout, (1, 1), [np.zeros((2, 2), np.float32)])
    writing.forget()  # the number is another layout's now
    for one in (other, again, again):
        [found] = sent([one], writing, reading)
        assert found.layout == other.layout
        assert found.counts == one.counts
    with pytest.raises(Malformed):
        reading.unpack(header, 0, bytearray(64))


@pytest.mark.parametrize(
    "given",
    [np.arange(3, dtype=">f4"), np.float32(3), np.ma.array([1.0, 2.0]), np.array(["a", "b"])],
)
def test_arrays_of_any_kind_are_taken_as_plain_ones(given: Any) -> None:
    found = Tensor("y", given).as_numpy()
    assert type(found) is np.ndarray
    assert found.dtype.isnative
    assert found.shape == np.asarray(given).shape
    assert found.tolist() == np.asarray(given).tolist()


def test_a_message_like_one_that_is_remembered_is_read_or_refused() -> None:
    tensors = ("x", "FP32", (2,)), ("t", "BYTES", (1,))
    group = Group(Layout(tensors, True), (1, 1), [np.zeros((2, 2), np.float32), TEXTS])
    told, refused = Writing(), 0
    told.pack([group], [])
    for place in range(len(told.pack([group], []))):
        writing, reading = Writing(), Reading()
        for _ in range(2):
            sent([group], writing, reading)
        chunks: list[Any] = []
        header = bytearray(writing.pack([group], chunks))
        content = bytearray(b"".join(bytes(one) + bytes(-len(one) % 64) for one in chunks))
        for value in (0, 1, 2, 3, 8, 16, 127, 255):
            header[place] = value
            try:
                found = reading.unpack(bytes(header), 0, content)
            except Malformed:
                refused += 1
                continue
            for one in found:
                assert one.arrays[0].nbytes <= len(content)
                assert len(one.arrays[0]) == len(one.arrays[1]) == sum(one.counts)
    assert refused
