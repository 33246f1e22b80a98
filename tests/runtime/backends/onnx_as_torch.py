"""An ONNX model as a program of PyTorch, for tests: the operators of the OCR example's models.

Sizes are kept as tensors, so that a trace (`torch.jit.trace`) takes other sizes than it was made
with.
"""

# pyright: basic, reportMissingImports=false
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper

functional: Any = torch.nn.functional
Operator = Callable[..., Any]


def _pads(attributes: dict[str, Any]) -> list[int]:
    """Return the padding of a convolution or pool, which is the same on both sides."""
    pads = attributes.get("pads", [0, 0, 0, 0])
    assert pads[: len(pads) // 2] == pads[len(pads) // 2 :]
    return pads[: len(pads) // 2]


def _conv(x: Any, w: Any, b: Any = None, **a: Any) -> Any:
    strides, groups = a.get("strides", [1, 1]), a.get("group", 1)
    assert a.get("auto_pad", b"NOTSET") == b"NOTSET"
    return functional.conv2d(x, w, b, strides, _pads(a), a.get("dilations", [1, 1]), groups)


def _conv_transpose(x: Any, w: Any, b: Any = None, **a: Any) -> Any:
    return functional.conv_transpose2d(x, w, b, a["strides"], _pads(a), groups=a.get("group", 1))


def _pool(x: Any, function: Operator, **a: Any) -> Any:
    ceil = bool(a.get("ceil_mode", 0))
    return function(x, a["kernel_shape"], a.get("strides"), _pads(a), ceil_mode=ceil)


def _average(x: Any, **a: Any) -> Any:
    def function(x: Any, *rest: Any, ceil_mode: bool) -> Any:
        counted = bool(a.get("count_include_pad", 0))
        return functional.avg_pool2d(x, *rest, ceil_mode, counted)

    return _pool(x, function, **a)


def _slice(x: Any, starts: Any, ends: Any, axes: Any, steps: Any = None) -> Any:
    assert steps is None or steps.tolist() == [1] * len(steps)
    for start, end, axis in zip(starts.tolist(), ends.tolist(), axes.tolist(), strict=True):
        x = x.narrow(axis, start, 0) if start == end else _cut(x, axis, start, end)
    return x


def _cut(x: Any, axis: int, start: int, end: int) -> Any:
    where = [slice(None)] * x.ndim
    where[axis] = slice(start, None if end >= 1 << 31 else end)
    return x[tuple(where)]


def _reshape(x: Any, shape: Any) -> Any:
    sizes = [x.shape[i] if size == 0 else shape[i] for i, size in enumerate(shape.tolist())]
    return x.reshape(sizes)


def _resize(x: Any, *rest: Any, **a: Any) -> Any:
    assert a.get("mode", b"nearest") == b"nearest"
    assert a["coordinate_transformation_mode"] == b"asymmetric"
    scales = next(one for one in reversed(rest) if one is not None and one.numel())
    return functional.interpolate(x, scale_factor=scales.tolist()[2:], mode="nearest")


def _norm(x: Any, scale: Any, bias: Any, mean: Any, variance: Any, **a: Any) -> Any:
    return functional.batch_norm(x, mean, variance, scale, bias, eps=a.get("epsilon", 1e-5))


def _clip(x: Any, low: Any = None, high: Any = None) -> Any:
    return torch.clamp(x, low, high)


def _mean(x: Any, **a: Any) -> Any:
    return x.mean(a["axes"], keepdim=bool(a.get("keepdims", 1)))


def _hard_sigmoid(x: Any, **a: Any) -> Any:
    return torch.clamp(x * a.get("alpha", 0.2) + a.get("beta", 0.5), 0, 1)


def _squeeze(x: Any, **a: Any) -> Any:
    for axis in sorted(a["axes"], reverse=True):
        x = x.squeeze(axis)
    return x


_TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64}
OPERATORS: dict[str, Operator] = {
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "Div": torch.div,
    "Pow": torch.pow,
    "Sqrt": torch.sqrt,
    "Relu": torch.relu,
    "Sigmoid": torch.sigmoid,
    "MatMul": torch.matmul,
    "Identity": lambda x: x,
    "Clip": _clip,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "BatchNormalization": _norm,
    "MaxPool": lambda x, **a: _pool(x, functional.max_pool2d, **a),
    "AveragePool": _average,
    "GlobalAveragePool": lambda x: x.mean([2, 3], keepdim=True),
    "HardSigmoid": _hard_sigmoid,
    "ReduceMean": _mean,
    "Softmax": lambda x, **a: torch.softmax(x, a.get("axis", 1)),
    "Transpose": lambda x, **a: x.permute(a["perm"]),
    "Concat": lambda *xs, **a: torch.cat(xs, a["axis"]),
    "Squeeze": _squeeze,
    "Shape": lambda x: torch._shape_as_tensor(x),  # pyright: ignore[reportPrivateImportUsage]
    "Cast": lambda x, **a: x.to(_TYPES[a["to"]]),
    "Slice": _slice,
    "Reshape": _reshape,
    "Resize": _resize,
}


class Program(torch.nn.Module):
    """The nodes of a model, one after the other."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        graph = model.graph
        self.inputs = [one.name for one in graph.input]
        self.outputs = [one.name for one in graph.output]
        self.nodes = [one for one in graph.node if one.op_type != "Constant"]
        constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        self.constants = {name: torch.from_numpy(np.array(a)) for name, a in constants.items()}

    def forward(self, *given: Any) -> Any:
        values: dict[str, Any] = {"": None, **self.constants}
        values |= zip([n for n in self.inputs if n not in self.constants], given, strict=True)
        for node in self.nodes:
            attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
            inputs = [values[name] for name in node.input]
            found = OPERATORS[node.op_type](*inputs, **attributes)
            values[node.output[0]] = found
        return tuple(values[name] for name in self.outputs)


def traced(model: onnx.ModelProto, *examples: np.ndarray[Any, Any]) -> Any:
    """Return a model as TorchScript."""
    with torch.inference_mode():
        inputs = tuple(torch.from_numpy(one) for one in examples)
        return torch.jit.trace(Program(model).eval(), inputs, check_trace=False)
