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
from .attempt import Attempt, Basis, attempt, closed
from .calibration import Calibrated, Calibrating, Calibration
from .choose import Job, jobs_of, methods_by, methods_of
from .report import Method, Precision, Rewritten

_SAMPLES = "`headrace compile FILE.pipe --calibrate SAMPLES`, or write a `test` that runs it"
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
        proto = closed(self._store.proto(job.content), job.model)
        basis = Basis(self._found(job), self._rows.get(job.content.digest, ()))
        methods = methods_of(job, proto, has_rows=bool(basis.rows))
        if basis.found is not None:
            methods = (basis.found.method,)
        if not methods:
            raise job.mistake(
                "HR431",
                f"`{job.stage}` needs samples to be int8: it has convolutions, or a GPU runs it"
                if not self._calibrating.found.models
                else f"the calibration has nothing of `{job.stage}` as it is now",
                _SAMPLES,
            )
        best = _closest(job, methods, proto, basis)
        blob, rows = self._store.blob(best.model), best.rows
        if rows:
            found = (job.precision, best.method, rows, best.ranges, best.figures)
            self.calibrated.append(Calibrated(job.content.digest, job.stage, *found))
        told = Rewritten(
            job.stage,
            job.precision,
            best.method,
            before=len(job.content.content),
            after=len(blob.content),
            rows=rows,
            figures=best.figures,
            kept=best.kept,
            note=_IN_F32 if job.precision is Precision.FP16 and not job.on_gpu else "",
        )
        return blob, told

    def _found(self, job: Job) -> Calibrated | None:
        find = self._calibrating.found.find
        found = (find(job.content.digest, job.precision, one) for one in methods_by(job))
        return next((one for one in found if one is not None), None)

    def _hold(self, job: Job, told: Rewritten) -> None:
        """Raise CompileError where results are further off than is allowed."""
        most, figures = self._calibrating.tolerance, told.figures
        if figures is None:
            if most is None:
                return
            message = (
                f"`{job.stage}` cannot be held to a tolerance: nothing is there to compare it on"
            )
            raise job.mistake("HR431", message, _SAMPLES)
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


def _closest(job: Job, methods: Sequence[Method], proto: onnx.ModelProto, basis: Basis) -> Attempt:
    """Return the attempt whose results are closest, of equal ones the first; raises Decline where
    none can be made."""
    made: list[Attempt] = []
    reason: Decline | None = None
    for method in methods:
        try:
            made.append(attempt(job, method, proto, basis))
        except Decline as why:
            reason = why
    if not made and reason is not None:
        raise reason
    return max(made, key=lambda one: one.figures.cosine if one.figures is not None else 0.0)
