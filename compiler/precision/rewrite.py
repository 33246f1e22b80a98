"""Rewrites the models of a source as its schedules ask, before any pass has seen them.

    read (f32) ── with `precision = int8` ──▶ read (f32 outside, int8 within)

Why before: a part of a merged model may be of another precision than its neighbours, is calibrated
with the rows that it was given as written, and keeps f32 at its borders, so that passes glue and
merge it like any other. The other order would quantise pixels and sums of ops around a model, and
one precision would have to hold for all that was merged. What it costs is a pair of casts between
two parts in the same precision.

It is no pass: it changes results, and so it also happens where nothing is to be optimised.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import onnx

from ...dsl import ast
from ...stdlib.op import Decline
from ..graph import Blob, Graph, ModelDef
from ..onnx_store import OnnxStore
from . import with_onnxruntime as library
from .calibration import Calibrated, Calibrating, Calibration, Range, Row
from .choose import Job, jobs_of, method_of, methods_by
from .halve import halved, rounded, weights_halved
from .opsets import BFLOAT16, MOST_IN_BFLOAT16, at_least
from .report import Figures, Kept, Method, Precision, Rewritten, compare

_IN_F32 = "on a processor it is no quicker: ONNX Runtime casts each value back to f32"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The graphs with their models rewritten, what was done, and what it was calibrated with."""

    graphs: tuple[Graph, ...]
    rewritten: tuple[Rewritten, ...]
    calibration: Calibration


def rewrite(
    graphs: Sequence[Graph],
    schedules: Mapping[str, ast.Schedule],
    calibrating: Calibrating,
    store: OnnxStore,
) -> Outcome:
    """Return graphs whose models are as their schedules ask; raises CompileError."""
    jobs = {graph.name: tuple(jobs_of(graph, schedules.get(graph.name))) for graph in graphs}
    rewriting = _Rewriting(calibrating, store, [job for some in jobs.values() for job in some])
    done = tuple(_rewritten(graph, jobs[graph.name], rewriting) for graph in graphs)
    return Outcome(done, tuple(rewriting.told.values()), Calibration(tuple(rewriting.calibrated)))


def _rewritten(graph: Graph, jobs: Sequence[Job], rewriting: "_Rewriting") -> Graph:
    if not jobs:
        return graph
    models: dict[str, ModelDef] = {}
    for job in jobs:
        content, told = rewriting.of(job)
        models[job.model.name] = replace(
            job.model, content=content, precision=(replace(told, stage=job.stage),)
        )
    # what is said of precision has been done, and keeps no two stages apart
    stages = tuple((name, replace(one, precision=None)) for name, one in graph.settings.stages)
    return replace(
        graph,
        models=tuple(models.get(model.name, model) for model in graph.models),
        settings=replace(graph.settings, stages=stages),
    )


@dataclass(frozen=True, slots=True)
class _Basis:
    """By what a model is rewritten: the ranges of its tensors, and rows to compare it on, or what
    was found on them before."""

    found: Calibrated | None
    rows: Sequence[Row]


class _Rewriting:
    """Rewrites each model once for each precision; `told` and `calibrated` are in order."""

    def __init__(self, calibrating: Calibrating, store: OnnxStore, jobs: Sequence[Job]) -> None:
        self.told: dict[tuple[str, Precision, bool], Rewritten] = {}
        self.calibrated: list[Calibrated] = []
        self._calibrating, self._store = calibrating, store
        self._made: dict[tuple[str, Precision, bool], Blob] = {}
        wanted = frozenset(job.content.digest for job in jobs if self._found(job) is None)
        record = calibrating.record
        self._rows = record(wanted) if record is not None and wanted else {}

    def of(self, job: Job) -> tuple[Blob, Rewritten]:
        """Return the new bytes of a model and what is told of them; raises CompileError."""
        key = (job.content.digest, job.precision, job.on_gpu)
        if key not in self._made:
            try:
                self._made[key], self.told[key] = self._rewritten(job)
            except Decline as reason:
                message = f"`{job.stage}` cannot be {job.precision.value}: {reason}"
                raise job.mistake("HR430", message) from reason
            self._hold(job, self.told[key])
        return self._made[key], self.told[key]

    def _rewritten(self, job: Job) -> tuple[Blob, Rewritten]:
        proto = _closed(self._store.proto(job.content), job.model)
        basis = _Basis(self._found(job), self._rows.get(job.content.digest, ()))
        has_rows = bool(basis.rows) or basis.found is not None
        method = method_of(job, proto, has_rows=has_rows)
        if method is None:
            raise job.mistake(
                "HR431",
                f"`{job.stage}` needs samples to be int8: it has convolutions, or a GPU runs it"
                if not self._calibrating.found.models
                else f"the calibration has nothing of `{job.stage}` as it is now",
                "`headrace compile FILE.pipe --calibrate SAMPLES`, or write a `test` that runs it",
            )
        new, ranges, kept = _made(job, method, proto, basis)
        figures, rows = _compared(job, method, proto, new, basis)
        blob = self._store.blob(new)
        if basis.rows or basis.found is not None:
            self.calibrated.append(
                Calibrated(
                    job.content.digest, job.stage, job.precision, method, rows, ranges, figures
                )
            )
        note = _IN_F32 if job.precision is Precision.FP16 and not job.on_gpu else ""
        before, after = len(job.content.content), len(blob.content)
        told = Rewritten(job.stage, job.precision, method, before, after, rows, figures, kept, note)
        return blob, told

    def _found(self, job: Job) -> Calibrated | None:
        find = self._calibrating.found.find
        found = (find(job.content.digest, job.precision, one) for one in methods_by(job))
        return next((one for one in found if one is not None), None)

    def _hold(self, job: Job, told: Rewritten) -> None:
        """Raise CompileError where results are further off than is allowed."""
        most, figures = self._calibrating.tolerance, told.figures
        if figures is None:
            return
        if math.isinf(figures.largest):
            message = f"`{job.stage}` gives infinity or no number in {job.precision.value}"
            raise job.mistake("HR433", message)
        if most is not None and (figures.share > most or figures.other):
            raise job.mistake(
                "HR433",
                f"`{job.stage}` is too far off in {job.precision.value}: by {figures.largest:.3g}, "
                f"{figures.share:.2%} of its largest result, and {most:.2%} is allowed",
                "leave it in f32, or calibrate with more samples",
            )


def _made(
    job: Job, method: Method, proto: onnx.ModelProto, basis: _Basis
) -> tuple[onnx.ModelProto, tuple[Range, ...], tuple[Kept, ...]]:
    """Return the new model, the ranges that it was made by, and what stays in f32."""
    match method:
        case Method.STATIC | Method.SYMMETRIC:
            ready = library.readied(proto)
            ranges = basis.found.ranges if basis.found else library.ranges(ready, basis.rows)
            new = library.quantised(ready, ranges, symmetric=method is Method.SYMMETRIC)
            return new, ranges, ()
        case Method.DYNAMIC:
            return library.quantised_at_run(library.readied(proto)), (), ()
        case Method.WEIGHTS:
            return weights_halved(at_least(proto, BFLOAT16), job.precision), (), ()
        case Method.HALF:
            proto = _newer(proto, job.precision)
            ranges = basis.found.ranges if basis.found else ()
            if basis.rows:
                ranges = library.ranges(proto, basis.rows)
            greatest = {one.tensor: max(-one.low, one.high) for one in ranges}
            done = halved(proto, job.precision, greatest)
            return done.model, ranges, done.kept


def _compared(
    job: Job, method: Method, proto: onnx.ModelProto, new: onnx.ModelProto, basis: _Basis
) -> tuple[Figures | None, int]:
    """Return how far off the new model is, and on how many rows."""
    if basis.found is not None:
        return basis.found.figures, basis.found.rows
    if not basis.rows:
        return None, 0
    names = job.model.output_names
    plain = library.results(proto, basis.rows, names)
    if method is Method.HALF:
        new = rounded(new, job.precision)
    return compare(plain, library.results(new, basis.rows, names)), len(basis.rows)


def _closed(proto: onnx.ModelProto, model: ModelDef) -> onnx.ModelProto:
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


def _newer(proto: onnx.ModelProto, precision: Precision) -> onnx.ModelProto:
    """Return the model in an opset in which its ops take the precision, as far as it can be."""
    if precision is not Precision.BF16:
        return proto
    try:
        return at_least(proto, MOST_IN_BFLOAT16)
    except Decline:
        return at_least(proto, BFLOAT16)
