"""The segments of a plan and the blobs that they need, each once."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ..dsl.types import DimVar, Field, Signature
from .batch_points import BatchPoint, batch_points, service_of
from .dimensions import rename_dim, rename_dims
from .engine_sizes import graph_ranges
from .graph import Blob, Check, FunctionCall, Graph, ModelCall, ModelDef, Node, OpCall
from .places import place_of
from .plan import ENGINES, ModelSegment, OpSegment, Pads, PythonSegment, Segment, ShapeRange
from .plan import Check as PlannedCheck
from .policies import Batching
from .stage_settings import CPU, backend_of, members_of, settings_of


class Segments:
    """Numbers segments in the order in which they are first used."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Segment, str], int] = {}
        self._blobs: dict[str, bytes] = {}
        # of the graph that was asked for last: its calls come one after the other
        self._points: tuple[Graph | None, dict[Node, BatchPoint]] = (None, {})

    @property
    def all(self) -> tuple[Segment, ...]:
        return tuple(segment for segment, _ in self._numbers)

    @property
    def blobs(self) -> tuple[tuple[str, bytes], ...]:
        return tuple(sorted(self._blobs.items()))

    def add(self, graph: Graph, node: Node, directory: Path) -> int:
        """Return the number of the segment that runs a call; an equal one is used again, unless
        sequences have rows of their own there, which others would take from them."""
        segment, sequencing = self._segment(graph, node, directory), graph.settings.sequencing
        own = sequencing is not None and sequencing.slots is not None
        key = segment, graph.name if own else ""
        return self._numbers.setdefault(key, len(self._numbers))

    def _segment(self, graph: Graph, node: Node, directory: Path) -> Segment:
        match node.kind:
            case OpCall(op=op):
                types = tuple(value.type for value in node.outputs)
                return OpSegment(node.stage, op.name, types, place_of(node.span, directory))
            case ModelCall(model=name) if graph.model(name).backend == "python":
                return self._python_model(graph, node, name, directory)
            case ModelCall():
                return self._model(graph, node, node.kind.model, directory)
            case FunctionCall(function=name) if graph.function(name).kind == "native":
                return self._native(graph, node, name, directory)
            case FunctionCall():
                return self._python(graph, node, node.kind.function, directory)
            case _:
                raise AssertionError(f"`{node.stage}` is not a call")

    def _model(self, graph: Graph, node: Node, name: str, directory: Path) -> ModelSegment:
        model, point = graph.model(name), self._point(graph, node)
        settings, number = settings_of(graph, node), _Numbers()
        signature, checks = _renumbered(model.signature, model.checks, number)
        return ModelSegment(
            name=node.stage,
            members=members_of(graph, node),
            model=self._keep(model.content, node),
            signature=signature,
            input_names=model.input_names,
            output_names=model.output_names,
            input_axes=model.input_axes,
            output_axes=model.output_axes,
            device=settings.device or graph.settings.device or CPU,
            batching=_batching(point, number),
            group=point.group,
            instances=settings.instances,
            queueing=settings.queueing,
            checks=checks,
            place=place_of(model.span, directory),
            pads=_pads(model, number),
            service=service_of(settings, point),
            where=_planned(model.where, number),
            kind=model.backend,
            backend=backend_of(graph, node),
            entry=model.entry,
            told=model.told,
            ranges=self._ranges(graph, node, model, point),
        )

    def _ranges(
        self, graph: Graph, node: Node, model: ModelDef, point: BatchPoint
    ) -> tuple[ShapeRange, ...]:
        if backend_of(graph, node) not in ENGINES:
            return ()
        return graph_ranges(graph, model, point.batching, point.group)[0]

    def _native(self, graph: Graph, node: Node, name: str, directory: Path) -> ModelSegment:
        function, point = graph.function(name), self._point(graph, node)
        settings = settings_of(graph, node)
        signature, _ = _renumbered(function.signature, (), _Numbers())
        axis = 0 if function.batched else None
        return ModelSegment(
            name=node.stage,
            members=(node.stage,),
            model=self._keep(function.source, node),
            signature=signature,
            input_names=tuple(field.name for field in signature.params),
            output_names=tuple(field.name for field in signature.results),
            input_axes=(axis,) * len(signature.params),
            output_axes=(axis,) * len(signature.results),
            device=CPU,
            batching=point.batching,
            group=point.group,
            instances=settings.instances,
            queueing=settings.queueing,
            checks=(),
            place=place_of(function.span, directory),
            service=settings.service,
            kind="native",
            backend="native",
            entry=function.attribute,
        )

    def _python(self, graph: Graph, node: Node, name: str, directory: Path) -> PythonSegment:
        function, point = graph.function(name), self._point(graph, node)
        settings = settings_of(graph, node)
        signature, _ = _renumbered(function.signature, (), _Numbers())
        return PythonSegment(
            name=node.stage,
            source=self._keep(function.source, node),
            file=function.location.rpartition(":")[0],
            attribute=function.attribute,
            signature=signature,
            batched=function.batched,
            batching=point.batching,
            queueing=settings.queueing,
            checks=(),
            place=place_of(function.span, directory),
            instances=settings.instances,
            service=settings.service,
            told=function.told,
        )

    def _python_model(self, graph: Graph, node: Node, name: str, directory: Path) -> PythonSegment:
        model, point = graph.model(name), self._point(graph, node)
        settings, number = settings_of(graph, node), _Numbers()
        signature, checks = _renumbered(model.signature, model.checks, number)
        path, _, attribute = model.location.rpartition(":")
        return PythonSegment(
            name=node.stage,
            source=self._keep(model.content, node),
            file=path,
            attribute=attribute,
            signature=signature,
            batched=model.batches,
            batching=_batching(point, number),
            queueing=settings.queueing,
            checks=checks,
            place=place_of(model.span, directory),
            instances=settings.instances or 1,
            group=point.group,
            device=settings.device or graph.settings.device or CPU,
            pads=_pads(model, number),
            service=service_of(settings, point),
            where=_planned(model.where, number),
            told=model.told,
        )

    def _point(self, graph: Graph, node: Node) -> BatchPoint:
        if self._points[0] is not graph:
            self._points = (graph, batch_points(graph))
        return self._points[1][node]

    def _keep(self, blob: Blob | None, node: Node) -> str:
        if blob is None:
            raise AssertionError(f"`{node.stage}` was checked without its file, and cannot be run")
        self._blobs[blob.digest] = blob.content
        return blob.digest


class _Numbers:
    """Numbers dimensions by first use, so that the same model is the same in every pipeline."""

    def __init__(self) -> None:
        self._numbers: dict[DimVar, DimVar] = {}

    def __call__(self, old: DimVar) -> DimVar:
        return self._numbers.setdefault(old, DimVar(old.name, len(self._numbers)))


def _pads(model: ModelDef, number: _Numbers) -> tuple[Pads, ...]:
    return tuple(Pads(number(one.dim), one.fill) for one in model.pads)


def _batching(point: BatchPoint, number: _Numbers) -> Batching | None:
    batching = point.batching
    if batching is None or batching.padding is None:
        return batching
    padding = replace(batching.padding, dim=number(batching.padding.dim))
    return replace(batching, padding=padding)


def _renumbered(
    signature: Signature, checks: Iterable[Check], number: _Numbers
) -> tuple[Signature, tuple[PlannedCheck, ...]]:
    def fields(old: tuple[Field, ...]) -> tuple[Field, ...]:
        return tuple(replace(field, type=rename_dims(field.type, number)) for field in old)

    new = Signature(fields(signature.params), fields(signature.results))
    return new, _planned(checks, number)


def _planned(checks: Iterable[Check], number: _Numbers) -> tuple[PlannedCheck, ...]:
    return tuple(
        PlannedCheck(rename_dim(c.left, number), c.op, rename_dim(c.right, number), c.text)
        for c in checks
    )
