"""One model in another precision, by one method, and how far off it is."""

from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from ...stdlib.op import Decline
from ..graph import ModelDef
from . import with_onnxruntime as library
from .calibration import Calibrated, Range, Row
from .choose import Job
from .half_weights import rounded, weights_halved
from .halve import halved
from .opsets import BFLOAT16, MOST_IN_BFLOAT16, at_least
from .report import Figures, Kept, Method, Precision, compare


@dataclass(frozen=True, slots=True)
class Basis:
    """By what a model is rewritten: what was found of it before, or rows to find it on."""

    found: Calibrated | None
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Attempt:
    """The new model, the ranges that it was made by, what stays in f32, and how far off it is on
    so many rows."""

    method: Method
    model: onnx.ModelProto
    ranges: tuple[Range, ...]
    kept: tuple[Kept, ...]
    figures: Figures | None
    rows: int


def attempt(job: Job, method: Method, proto: onnx.ModelProto, basis: Basis) -> Attempt:
    """Return a model rewritten by a method and compared; raises Decline."""
    ranges: tuple[Range, ...] = basis.found.ranges if basis.found is not None else ()
    kept: tuple[Kept, ...] = ()
    match method:
        case Method.STATIC | Method.SYMMETRIC:
            ready = library.readied(proto)
            if basis.found is None:
                ranges = library.ranges(ready, basis.rows)
            new = library.quantised(ready, ranges, symmetric=method is Method.SYMMETRIC)
        case Method.DYNAMIC:
            new = library.quantised_at_run(library.readied(proto))
        case Method.WEIGHTS:
            new = weights_halved(at_least(proto, BFLOAT16), job.precision)
        case Method.HALF:
            newer = _newer(proto, job.precision)
            if basis.rows:
                ranges = library.ranges(newer, basis.rows)
            greatest = {one.tensor: max(-one.low, one.high) for one in ranges}
            done = halved(newer, job.precision, greatest)
            new, kept = done.model, done.kept
    if basis.found is not None:
        return Attempt(method, new, ranges, kept, basis.found.figures, basis.found.rows)
    figures = _figures(job, method, proto, new, basis.rows) if basis.rows else None
    return Attempt(method, new, ranges, kept, figures, len(basis.rows))


def closed(proto: onnx.ModelProto, model: ModelDef) -> onnx.ModelProto:
    """Return the model without inputs that nobody gives: their defaults are weights then."""
    given = set(model.input_names)
    held = {one.name for one in proto.graph.initializer}
    spare = {one.name for one in proto.graph.input if one.name in held - given}
    if not spare:
        return proto
    new = onnx.ModelProto()
    new.CopyFrom(proto)
    kept = [one for one in proto.graph.input if one.name not in spare]
    del new.graph.input[:]
    new.graph.input.extend(kept)
    new.ir_version = max(new.ir_version, 4)
    return new


def _figures(
    job: Job,
    method: Method,
    proto: onnx.ModelProto,
    new: onnx.ModelProto,
    rows: Sequence[Row],
) -> Figures | None:
    names = job.model.output_names
    if method is Method.HALF:
        new = rounded(new, job.precision)
    return compare(library.results(proto, rows, names), library.results(new, rows, names))


def _newer(proto: onnx.ModelProto, precision: Precision) -> onnx.ModelProto:
    """Return the model in an opset in which its ops take the precision, as far as it can be."""
    if precision is not Precision.BF16:
        return proto
    try:
        return at_least(proto, MOST_IN_BFLOAT16)
    except Decline:
        return at_least(proto, BFLOAT16)
