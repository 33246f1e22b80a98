"""Values through shared memory: what goes in comes out, and what others write does no harm."""

import os
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from headrace.dsl.types import DType
from headrace.runtime.isolation.memory import LIMIT, make
from headrace.runtime.isolation.message import Forms, Message, Unsendable
from headrace.runtime.isolation.reading import Known, Malformed, read
from headrace.runtime.isolation.values import SMALL, Tag
from headrace.stdlib.dtypes import to_numpy

NUMERIC = [to_numpy(one) for one in DType if one not in (DType.STRING, DType.BYTES)]
texts = st.text(st.characters(), max_size=5)
leaves = st.one_of(
    st.none(),
    texts,
    st.binary(max_size=5),
    st.booleans(),
    st.integers(),
    st.floats(),
    npst.arrays(
        st.sampled_from([one for one in NUMERIC if one != ml_dtypes.bfloat16]),
        npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
    npst.arrays(object, npst.array_shapes(max_dims=2, max_side=3), elements=texts, fill=texts),
)
items = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4), max_leaves=12)


def written(values: object) -> tuple[Any, Message]:  # Any: an array of bytes
    message = Message([values])
    memory = np.zeros(max(message.size, 1), np.uint8)
    message.write(memory.data)
    return memory, message


def through(value: object, *, borrow: bool = True) -> Any:  # Any: as the value
    memory, message = written(value)
    (found,) = read(memory, message.tree, message.size, borrow=borrow, writable=True)
    return found


def assert_same(found: object, expected: object) -> None:
    if isinstance(expected, list | tuple):
        assert type(found) is type(expected)
        assert isinstance(found, list | tuple)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, np.ndarray | np.generic):
        assert isinstance(found, np.ndarray | np.generic)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        if expected.dtype == object:
            assert found.tolist() == expected.tolist()
        else:
            assert found.tobytes() == expected.tobytes()
    else:
        assert type(found) is type(expected)
        assert repr(found) == repr(expected)


@given(value=items)
def test_values_of_every_kind_arrive_as_they_were(value: object) -> None:
    assert_same(through(value), value)


@given(calls=st.lists(st.lists(items, max_size=3), max_size=4), writable=st.booleans())
def test_what_is_known_of_messages_before_changes_nothing(
    calls: list[list[object]], writable: bool
) -> None:
    forms: Forms = {}
    known: Known = {}
    for values in [*calls, *calls]:
        message = Message(values, forms)
        plain = Message(values)
        assert (message.tree, message.size) == (plain.tree, plain.size)
        memory = np.zeros(max(message.size, 1), np.uint8)
        message.write(memory.data)
        found = read(
            memory, message.tree, message.size, borrow=True, writable=writable, known=known
        )
        assert_same(found, values)
        assert all(
            one.flags.writeable == writable
            for one in found
            if type(one) is np.ndarray and one.dtype != object
        )


def test_a_known_tree_is_held_to_what_is_there() -> None:
    known: Known = {}
    message = Message([np.ones(3), np.ones(5)])
    memory = np.zeros(message.size, np.uint8)
    message.write(memory.data)
    for size in (message.size, message.size):
        read(memory, message.tree, size, borrow=True, writable=True, known=known)
    assert len(known) == 1
    with pytest.raises(Malformed):
        read(memory, message.tree, message.size - 1, borrow=True, writable=True, known=known)


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (0, 5), (2, 1, 3), (SMALL,)])
@pytest.mark.parametrize("borrow", [True, False])
def test_tensors_of_every_dtype_arrive_bit_by_bit(
    dtype: "np.dtype[Any]", shape: tuple[int, ...], borrow: bool
) -> None:
    bits = np.random.default_rng(0).integers(0, 2, (*shape, dtype.itemsize), np.uint8)
    value = bits.view(dtype).reshape(shape)
    assert_same(through(value, borrow=borrow), value)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(24, dtype=np.int32).reshape(4, 6)[::2, ::-3],
        np.broadcast_to(np.float32(3), (4, 5)),
        np.float16(2),
        np.array([["a", ""], ["ü", "\ud800"]], object),
        np.array([b"\xff", b""], object),
        np.array("alone", object),
        np.empty((0, 2), object),
        ["a", "\udcff"],
        [b"", b"b"],
        [1, 2**80, -(2**63)],
        [True, False],
        [1.5, float("inf")],
        (1, (2, [None])),
        [np.ones(3), "b", None],
    ],
)
def test_what_tensors_and_lists_may_be_arrives(value: object) -> None:
    if isinstance(value, np.ndarray | np.generic):
        found = through(value)
        assert found.dtype == value.dtype
        assert found.tolist() == value.tolist()
    else:
        assert_same(through(value), value)


def test_strings_of_numpy_and_other_byte_orders_become_what_a_stage_takes() -> None:
    assert through(np.array(["a", "bc"])).tolist() == ["a", "bc"]
    assert through(np.array([1, 2], ">i4")).dtype == np.dtype(np.int32)
    assert through(np.array([1, 2], ">i4")).tolist() == [1, 2]


def test_large_tensors_are_not_copied_and_small_ones_are() -> None:
    memory, message = written([np.zeros(SMALL + 1, np.uint8), np.zeros(SMALL, np.uint8)])
    ((large, small),) = read(memory, message.tree, message.size, borrow=True, writable=True)  # type: ignore[misc] two of them
    assert np.shares_memory(large, memory)
    assert not np.shares_memory(small, memory)
    ((copied, _),) = read(memory, message.tree, message.size, borrow=False, writable=True)  # type: ignore[misc] two of them
    assert not np.shares_memory(copied, memory)


def test_what_can_be_no_result_arrives_by_the_name_of_its_type() -> None:
    class Odd: ...

    assert type(through(Odd())).__name__ == "Odd"
    assert not hasattr(through(Odd()), "__len__")
    found = through({"a": 1, "b": 2})
    assert (type(found).__name__, len(found)) == ("dict", 2)
    assert type(found[0]).__name__ == "object"
    assert through(np.ones(3, np.complex64)).dtype == np.complex64
    assert type(through(np.array(["2020-01-01"], "M8[D]"))).__name__ == "ndarray"


def test_what_is_too_much_for_one_run_is_said_so() -> None:
    nested: list[object] = []
    for _ in range(40):
        nested = [nested]
    with pytest.raises(Unsendable, match="nested too deep"):
        Message([nested])
    with pytest.raises(Unsendable, match="bytes are more than one run may pass"):
        Message([np.broadcast_to(np.float64(0), (LIMIT // 8 + 1,))])


@settings(max_examples=settings().max_examples * 5)
@given(content=st.binary(max_size=300), tree=st.integers(-1, 400), size=st.integers(-1, 400))
def test_bytes_of_any_kind_are_values_or_refused(content: bytes, tree: int, size: int) -> None:
    try:
        found = read(np.frombuffer(content, np.uint8), tree, size, borrow=True, writable=True)
    except Malformed:
        return
    assert isinstance(found, list)


@settings(max_examples=settings().max_examples * 5)
@given(value=items, changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=6))
def test_values_that_were_tampered_with_are_others_or_refused(
    value: object, changes: list[tuple[int, int]]
) -> None:
    memory, message = written(value)
    for position, byte in changes:
        memory[position % len(memory)] = byte
    try:
        found = read(memory, message.tree, message.size, borrow=True, writable=True)
    except Malformed:
        return
    assert isinstance(found, list)


def listed(tag: Tag, *rest: bytes) -> bytes:
    """A list of one node."""
    return bytes([Tag.LIST]) + (1).to_bytes(8, "little") + bytes([tag]) + b"".join(rest)


def sizes(*found: int) -> bytes:
    return b"".join(one.to_bytes(8, "little") for one in found)


@pytest.mark.parametrize(
    "content",
    [
        listed(Tag.ARRAY, bytes([11, 2]), sizes(2**40, 2**40)),
        listed(Tag.ARRAY, bytes([11, 3]), sizes(0, 2**62, 2**62)),
        listed(Tag.ARRAY, bytes([11, 255])),
        listed(Tag.ARRAY, bytes([200, 0])),
        listed(Tag.STRING, sizes(2**63)),
        listed(Tag.LIST, sizes(2**50)),
        listed(Tag.LIST, sizes(2**28), bytes([Tag.RUN, 2])),
        listed(Tag.LIST, sizes(2**28), bytes([Tag.RUN, 0])),
        listed(Tag.LIST, sizes(2**60), bytes([Tag.RUN, 4])),
        listed(Tag.OBJECTS, bytes([0, 1]), sizes(2**40), bytes([Tag.NONE])),
        listed(Tag.OTHER, bytes([200, 1]), sizes(2**63)),
        listed(Tag.TUPLE, sizes(1)) * 100,
        bytes([Tag.NONE]),
    ],
)
def test_lengths_that_others_claim_take_no_memory(content: bytes) -> None:
    memory = np.zeros(1 << 20, np.uint8)
    memory[: len(content)] = np.frombuffer(content, np.uint8)
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            read(memory, len(content), len(memory), borrow=True, writable=True)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_text_that_would_fill_the_engine_s_memory_is_refused() -> None:
    arena, descriptor = make(0, LIMIT)  # pages that nobody writes to take no memory
    os.close(descriptor)
    content = listed(Tag.BYTES, sizes(3 << 30))
    arena.view[: len(content)] = content
    loan = arena.lend()
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match="strings of more than"):
            read(loan.bytes, len(content), arena.size, borrow=True, writable=True)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
        loan.end()


def test_what_is_written_while_it_is_read_changes_no_length() -> None:
    memory, message = written(["ab", "c"])
    before = through(["ab", "c"])
    (found,) = read(memory, message.tree, message.size, borrow=True, writable=True)
    memory[:] = 255
    assert found == before
