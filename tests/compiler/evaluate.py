"""What a graph means, in the plainest way: one item after the other, references, one run a call.

Slow and without any optimisation; what is faster must give the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import onnxruntime

from headrace.compiler.graph import (
    Constant,
    Emit,
    For,
    FunctionCall,
    Graph,
    If,
    Loop,
    Match,
    ModelCall,
    ModelDef,
    Node,
    OpCall,
    Region,
    Together,
    Transfer,
    Try,
    Value,
)
from headrace.dsl.types import DType, ListType, TensorType, Type
from headrace.stdlib.dtypes import to_numpy
from headrace.stdlib.op import Item, Literal


def same(x: Any) -> Any:  # Any: whatever the graph's types say
    """What an opaque function of these tests gives back."""
    return x


def double(x: Any) -> Any:  # Any: as above
    """What a pure function of these tests gives back."""
    return x + x


Functions = Mapping[str, Callable[..., Any]]  # Any: one item or a tuple of them


@dataclass
class Evaluator:
    """Runs graphs. `calls` records the stages of models and functions that ran, in order, and
    `emitted` what streams have sent."""

    functions: Functions = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    emitted: list[list[Item]] = field(default_factory=list)
    optimize_models: bool = False
    sessions: dict[str, onnxruntime.InferenceSession] = field(default_factory=dict)

    def run(self, graph: Graph, *inputs: Item) -> list[Item]:
        """Return the results for one value a parameter."""
        return self._region(graph, graph.body, inputs, {})

    def _region(
        self, graph: Graph, region: Region, params: Sequence[Item], around: Mapping[Value, Any]
    ) -> list[Item]:
        values = {**around, **dict(zip(region.params, params, strict=True))}
        for node in region.nodes:
            results = self._node(graph, node, values)
            values.update(zip(node.outputs, results, strict=True))
        return [values[value] for value in region.results]

    def _node(self, graph: Graph, node: Node, values: Mapping[Value, Any]) -> Sequence[Item]:
        inputs = [values[value] for value in node.inputs]
        match node.kind:
            case Constant(literal):
                return [cast("Item", literal)]  # as it is: an op gives it the other side's dtype
            case OpCall(op):
                with np.errstate(all="ignore"):
                    result = op.reference(*inputs)
                return result if isinstance(result, tuple) else (result,)
            case ModelCall(name):
                self.calls.append(node.stage)
                model = graph.model(name)
                types = [one.type for one in model.signature.params]
                given = [typed(one, type) for one, type in zip(inputs, types, strict=True)]
                rows = self.batch(model, [[one] for one in given])
                return [row[0] for row in rows]
            case FunctionCall(name):
                self.calls.append(node.stage)
                types = [one.type for one in graph.function(name).signature.params]
                given = [typed(one, type) for one, type in zip(inputs, types, strict=True)]
                result = self.functions[name](*given)
                return result if isinstance(result, tuple) else (result,)
            case If():
                arm = node.regions[0 if inputs[0] else 1]
                return self._region(graph, arm, (), values)
            case Match(cases):
                subject = inputs[0].item() if isinstance(inputs[0], np.ndarray) else inputs[0]
                found = (i for i, case in enumerate(cases) if subject in case)
                return self._region(graph, node.regions[next(found, len(cases))], (), values)
            case For(filtered):
                return self._each(graph, node, inputs, values, filtered)
            case Loop(stops):
                carried = list(inputs[1:])
                for _ in range(int(inputs[0])):
                    carried = self._region(graph, node.regions[0], carried, values)
                    if stops and carried.pop():
                        break
                return carried
            case Try():
                try:
                    return self._region(graph, node.regions[0], (), values)
                except Exception:  # whatever fails in the body is what `try` is for
                    return self._region(graph, node.regions[1], (), values)
            case Together():
                # the last first: nothing may depend on the order
                arms = [self._region(graph, arm, (), values) for arm in reversed(node.regions)]
                return [item for results in reversed(arms) for item in results]
            case Emit():
                self.emitted.append(inputs)
                return []
            case Transfer():
                return inputs

    def _each(
        self,
        graph: Graph,
        node: Node,
        inputs: Sequence[Any],
        values: Mapping[Value, Any],
        filtered: bool,
    ) -> list[Item]:
        rows = [
            self._region(graph, node.regions[0], items, values)
            for items in zip(*inputs, strict=True)
        ]
        kept = [row[:-1] for row in rows if row[-1]] if filtered else rows
        return [
            gathered([row[i] for row in kept], output.type) for i, output in enumerate(node.outputs)
        ]

    def batch(self, model: ModelDef, columns: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Run a model on rows at once: a column an input, a column an output."""
        feeds: dict[str, Any] = {}
        for name, axis, column in zip(model.input_names, model.input_axes, columns, strict=True):
            if column[0] is not None:
                feeds[name] = column[0] if axis is None else np.stack(column, axis)
        outputs: list[Any] = list(self._session(model).run(list(model.output_names), feeds))
        count = len(columns[0])
        return [
            [output] * count if axis is None else [np.take(output, i, axis) for i in range(count)]
            for output, axis in zip(outputs, model.output_axes, strict=True)
        ]

    def _session(self, model: ModelDef) -> onnxruntime.InferenceSession:
        assert model.content is not None
        if model.content.digest not in self.sessions:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            options.log_severity_level = 3
            if not self.optimize_models:
                options.graph_optimization_level = (
                    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
                )
            self.sessions[model.content.digest] = onnxruntime.InferenceSession(
                model.content.content, options, providers=["CPUExecutionProvider"]
            )
        return self.sessions[model.content.digest]


def typed(item: "Item | Literal", type: Type) -> Any:
    """Return a value as what a model or function of that parameter type is given."""
    if item is None or not isinstance(type, TensorType) or isinstance(item, str | bytes):
        return item
    if type.dtype in (DType.STRING, DType.BYTES):
        return np.asarray(item, object)
    return np.asarray(item, to_numpy(type.dtype))


def gathered(items: list[Item], type: Type) -> Item:
    """Return the results of a `for` as a list, or stacked where its type is a tensor."""
    if isinstance(type, ListType):
        return items
    assert isinstance(type, TensorType)
    if items:
        return np.stack([np.asarray(item) for item in items])
    inner = [dim if isinstance(dim, int) else 0 for dim in type.dims[1:]]
    return np.zeros((0, *inner), to_numpy(type.dtype))


def equal(left: Item, right: Item) -> bool:
    """Tell whether two values are the same to the bit, NaNs included."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, str | bytes) or left is None or right is None:
        return left == right
    one, other = np.asarray(left), np.asarray(right)
    if one.dtype == object or other.dtype == object:
        return one.tolist() == other.tolist()
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
