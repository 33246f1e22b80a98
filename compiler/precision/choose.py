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
from ..onnx_names import all_nodes
from ..schedule import stages_of
from .kept import quantised_by
from .report import Method, Precision

_NEED_RANGES = frozenset({"Conv", "ConvTranspose"})
_AS_IT_COMES = frozenset({"MatMul", "Gemm", "LSTM"})
_TENSORRT = ("tensorrt", "tensorrt_rtx")


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
            device.startswith("gpu:") or settings.backend in _TENSORRT,
            _asked_at(schedule, name) or model.span,
        )


def method_of(job: Job, proto: onnx.ModelProto, *, has_rows: bool) -> Method | None:
    """Return how a model is rewritten, None when that takes samples and there are none.

    Raises Decline where the file is not one to rewrite.
    """
    already = quantised_by(all_nodes(proto.graph))
    if already is not None:
        raise Decline(f"it is quantised already: it has a {already}")
    match job.precision:
        case Precision.FP16:
            return Method.HALF
        case Precision.BF16:
            return Method.HALF if job.on_gpu else Method.WEIGHTS
        case Precision.INT8 if has_rows:
            return Method.SYMMETRIC if job.on_gpu else Method.STATIC
        case Precision.INT8:
            ops = {node.op_type for node in proto.graph.node}
            as_it_comes = ops & _AS_IT_COMES and not ops & _NEED_RANGES and not job.on_gpu
            return Method.DYNAMIC if as_it_comes else None


def methods_by(job: Job) -> tuple[Method, ...]:
    """Return by which methods a model may have been calibrated."""
    match job.precision:
        case Precision.INT8:
            return (Method.SYMMETRIC,) if job.on_gpu else (Method.STATIC,)
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
