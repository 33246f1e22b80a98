"""Which models are rewritten, and by what method: what a schedule asks for, held against the file,
where it is to run and what there is to calibrate with."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx

from ...dsl import ast
from ...dsl.diagnostic import CompileError, Diagnostic, Label
from ...dsl.source import Span
from ...stdlib.op import Decline
from ..graph import Blob, Graph, ModelDef
from ..plan import ENGINES
from ..schedule import stages_of
from .kept import is_of_bytes, quantised_by
from .report import Method, Precision

_NEED_RANGES = frozenset({"Conv", "ConvTranspose"})
_AT_RUN = frozenset({"MatMul", "Gemm", "LSTM"})


@dataclass(frozen=True, slots=True)
class Job:
    """A stage whose model is to be rewritten; `where` the schedule asks for it, `on_gpu` whether it
    runs there."""

    stage: str
    model: ModelDef
    content: Blob
    precision: Precision
    on_gpu: bool
    where: Span

    def mistake(self, code: str, message: str, help: str | None = None) -> CompileError:
        return CompileError([Diagnostic(code, message, Label(self.where), help=help)])


def jobs_of(graph: Graph, schedule: ast.Schedule | None) -> Iterator[Job]:
    """Yield the models of a pipeline of which its schedule names a precision."""
    asked = [(name, one) for name, one in graph.settings.stages if one.precision is not None]
    stages = stages_of(graph) if asked else {}
    for name, settings in asked:
        model = stages[name].runs
        assert isinstance(model, ModelDef), "the schedule was held against the stages"
        assert model.content is not None, f"the file of `{name}` has been read"
        assert settings.precision is not None
        device = settings.device or graph.settings.device or "cpu"
        yield Job(
            name,
            model,
            model.content,
            settings.precision,
            device.startswith("gpu:") or settings.backend in ENGINES,
            _asked_at(schedule, name) or model.span,
        )


def methods_of(job: Job, proto: onnx.ModelProto, *, has_rows: bool) -> tuple[Method, ...]:
    """Return how a model may be rewritten; none when that takes samples and there are none.

    Raises Decline where the file is not one to rewrite.
    """
    already = quantised_by(proto)
    if already is not None:
        raise Decline(f"it is quantised already: it has a {already}")
    if job.precision is not Precision.INT8:
        return methods_by(job)
    if is_of_bytes(proto):
        raise Decline("it is quantised already: most of its weights are bytes")
    ops = {node.op_type for node in proto.graph.node}
    if not ops & (_NEED_RANGES | _AT_RUN) and not proto.functions:
        named = ", ".join(sorted(_NEED_RANGES | _AT_RUN))
        raise Decline(f"nothing in it can be quantised: it has no {named} of its own")
    if job.on_gpu:
        return methods_by(job) if has_rows else ()
    at_run = bool(ops & _AT_RUN) and not ops & _NEED_RANGES
    static = (Method.STATIC,) if has_rows else ()
    return (*static, Method.DYNAMIC) if at_run else static


def methods_by(job: Job) -> tuple[Method, ...]:
    """Return by which methods there are to be tried that a model could be rewritten."""
    match job.precision:
        case Precision.INT8:
            return (Method.SYMMETRIC,) if job.on_gpu else (Method.STATIC, Method.DYNAMIC)
        case Precision.FP16:
            return (Method.HALF,)
        case Precision.BF16:
            return (Method.HALF if job.on_gpu else Method.WEIGHTS,)


def _asked_at(schedule: ast.Schedule | None, stage: str) -> Span | None:
    found: Mapping[str, ast.Setting] = (
        {one.key.text: one for one in schedule.settings} if schedule is not None else {}
    )
    inside = found[stage].settings if stage in found else None
    return next((one.span for one in inside or () if one.key.text == "precision"), None)
