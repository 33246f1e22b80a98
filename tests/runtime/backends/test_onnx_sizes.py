"""What ONNX Runtime keeps of the sizes that its runs have had."""

import ctypes
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper

from headrace.compiler.plan import ModelSegment, Service
from headrace.dsl.types import OptionalType
from headrace.runtime.devices.host import HostDevice
from headrace.runtime.division import Share
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.onnx_backend import alike_in_size
from headrace.runtime.onnx_session import OnnxSession
from headrace.runtime.request import Request
from tests.runtime.plans import PlanMaker, add_model, block, call, fields, model

WIDTH, SIZES = 100, 200

needs_glibc = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs mallinfo2"
)


def wide(*dims: int | str) -> bytes:
    """Values that are all there at one time, and their sum."""
    names = [f"v{number}" for number in range(WIDTH)]
    nodes = [helper.make_node("Mul", ["x", f"w{name}"], [name]) for name in names]
    nodes.append(helper.make_node("Sum", names, ["y"]))
    weights: dict[str, np.ndarray | np.generic] = {
        f"w{name}": np.float32(number) for number, name in enumerate(names)
    }
    float32 = TensorProto.FLOAT
    return model(nodes, [("x", float32, dims)], [("y", float32, dims)], weights)


def in_use() -> int:
    """Return the bytes in use in the C library's heap."""

    class Mallinfo(ctypes.Structure):
        _fields_ = tuple((name, ctypes.c_size_t) for name in "abcdefghij")

    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    heap = mallinfo()
    return heap.e + heap.h  # hblkhd, uordblks


def grown(session: OnnxSession) -> int:
    """Return by how much the heap is larger after runs of many sizes, the largest first."""
    for _ in range(3):
        session.run({"x": np.ones((SIZES, 4), np.float32)})
    before = in_use()
    for size in range(1, SIZES):
        session.run({"x": np.ones((size, 4), np.float32)})
    return in_use() - before


@needs_glibc
def test_runs_of_many_sizes_leave_nothing_behind() -> None:
    each = {
        alike: grown(OnnxSession(wide("N", 4), ["y"], HostDevice(), Share(1, 1), alike=alike))
        / SIZES
        for alike in (False, True)
    }
    assert each[False] < 500 < each[True]


@needs_glibc
def test_a_size_that_a_stage_is_warmed_up_with_takes_no_more_memory_for_requests() -> None:
    maker, size = PlanMaker(), 1 << 14
    x, y = fields(x=f"f32[{size}]"), fields(y=f"f32[{size}]")
    maker.onnx("m", wide("B", size), x, y)
    maker.segments[0] = replace(model_of(maker), service=Service(warmup=(1,)))
    maker.pipeline("p", x, y, block([0], [call(0, [0], [1])], [1]))
    with closing(Engine(maker.plan(), EngineConfig(workers=1, intra_op_threads=1))) as engine:
        before = in_use()
        engine.call(Request("p", {"x": np.ones(size, np.float32)}))
        assert in_use() - before < size * WIDTH  # a quarter of its values


def segment(*dims: int | str) -> ModelSegment:
    maker, kind = PlanMaker(), f"f32[{', '.join(map(str, dims))}]"
    maker.onnx("m", add_model(1, *dims), fields(x=kind), fields(y=kind))
    return model_of(maker)


def model_of(maker: PlanMaker) -> ModelSegment:
    (made,) = maker.segments
    assert isinstance(made, ModelSegment)
    return made


def test_runs_are_alike_where_no_dimension_is_open() -> None:
    assert alike_in_size(segment(3, 8))
    assert not alike_in_size(segment(3, "N"))


def test_runs_from_which_an_input_may_be_left_out_are_not_alike() -> None:
    one = segment(3, 8)
    (x,) = one.signature.params
    maybe = replace(x, type=OptionalType(x.type))
    assert not alike_in_size(replace(one, signature=replace(one.signature, params=(maybe,))))
