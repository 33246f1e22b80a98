"""Leaves to ONNX Runtime what TensorRT does not take, as a whole and with a reason.

    y = route(text)   text: string   backend tensorrt   becomes   backend onnx

TensorRT builds an engine of a whole segment or of nothing: what it takes is known by the ops and
dtypes in it (`engine_ops.py`), before any builder is there. Bytes become floats where they come in
(`engine_bytes.py`).
"""

from dataclasses import replace

from ..engine_bytes import floats_for_bytes
from ..engine_ops import refusal
from ..graph import Graph, Settings
from ..graph_pass import Declined, Pass, PassContext, PassResult, Phase
from ..plan import ENGINES
from ..rewrite import model_calls
from ..stage_settings import backend_of, members_of


def run(graph: Graph, context: PassContext) -> PassResult:
    declined: list[Declined] = []
    settings, models = graph.settings, {model.name: model for model in graph.models}
    for node, call in model_calls(graph.body):
        model, backend = models[call.model], backend_of(graph, node)
        if backend not in ENGINES or model.content is None:
            continue
        proto = context.models.proto(model.content)
        reason = refusal(proto, model.signature, backend)
        fit = floats_for_bytes(proto) if reason is None else reason
        if isinstance(fit, str):
            settings = _stays(settings, (node.stage, *members_of(graph, node)), fit)
            text = f"`{node.stage}` stays on ONNX Runtime: {fit}"
            declined.append(Declined(node.stage, text, node.span))
        elif fit is not proto:
            models[model.name] = replace(model, content=context.models.blob(fit))
    new = tuple(models.values())
    if not declined and new == graph.models:
        return PassResult(graph, False)
    return PassResult(replace(graph, settings=settings, models=new), True, tuple(declined))


def _stays(settings: Settings, stages: tuple[str, ...], reason: str) -> Settings:
    changed = tuple(
        (name, replace(one, backend=None, stays=reason, service=replace(one.service, engine=None)))
        if name in stages
        else (name, one)
        for name, one in settings.stages
    )
    return replace(settings, stages=changed)


PASS = Pass("choose_backends", Phase.PLACE, run)
