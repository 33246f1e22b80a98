"""Small models as people have them: a net of convolutions, products only, a block of a transformer,
values that halves do not hold, branches."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from headrace.compiler.precision.with_onnxruntime import results

Weights = Mapping[str, np.ndarray]


def model(text: str, weights: Weights, *, opset: int = 17, ir: int = 8) -> onnx.ModelProto:
    """Return the model of ONNX's own text form, with weights added."""
    made = parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}]>\n{text}')
    made.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in weights.items()
    )
    onnx.checker.check_model(made, full_check=True)
    return made


def drawn(*shape: int, seed: int = 0, scale: float = 0.3) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def conv_net(*, opset: int = 17) -> onnx.ModelProto:
    """Convolutions with a normalisation behind the first, as exporters leave them."""
    return model(
        """net (float[N, 3, 16, 16] x) => (float[N, 4] y) {
            a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w1)
            b = BatchNormalization (a, scale, shift, mean, variance)
            c = Relu (b)
            d = Conv <kernel_shape = [3, 3], strides = [2, 2]> (c, w2)
            e = GlobalAveragePool (d)
            f = Flatten (e)
            y = Gemm (f, w3, b3)
        }""",
        {
            "w1": drawn(16, 3, 3, 3),
            "scale": np.full(16, 1.5, np.float32),
            "shift": drawn(16, seed=1),
            "mean": drawn(16, seed=2),
            "variance": np.full(16, 2.0, np.float32),
            "w2": drawn(64, 16, 3, 3, seed=3, scale=0.1),
            "w3": drawn(64, 4, seed=4),
            "b3": drawn(4, seed=5),
        },
        opset=opset,
    )


def perceptron() -> onnx.ModelProto:
    """Products alone; the two layers share their weights."""
    return model(
        """mlp (float[N, 64] x) => (float[N, 64] y) {
            a = MatMul (x, w)
            b = Relu (a)
            y = MatMul (b, w)
        }""",
        {"w": drawn(64, 64, scale=0.1)},
    )


def transformer() -> onnx.ModelProto:
    """Attention over L places, and a normalisation as one op and as many."""
    return model(
        """block (float[N, L, 16] x) => (float[N, L, 16] y) {
            n = LayerNormalization <axis = -1> (x, gain, bias)
            q = MatMul (n, wq)
            k = MatMul (n, wk)
            v = MatMul (n, wv)
            kt = Transpose <perm = [0, 2, 1]> (k)
            s = MatMul (q, kt)
            p = Softmax <axis = -1> (s)
            o = MatMul (p, v)
            r = Add (x, o)
            m = ReduceMean <axes = [-1]> (r)
            c = Sub (r, m)
            cc = Mul (c, c)
            var = ReduceMean <axes = [-1]> (cc)
            eps = Constant <value_float = 1e-12> ()
            ve = Add (var, eps)
            sd = Sqrt (ve)
            y = Div (c, sd)
        }""",
        {
            "gain": np.ones(16, np.float32),
            "bias": drawn(16, seed=1),
            **{name: drawn(16, 16, seed=i) for i, name in enumerate(("wq", "wk", "wv"))},
        },
    )


def overflowing() -> onnx.ModelProto:
    """`big` has values that fp16 has no number for, and so has a constant."""
    return model(
        """over (float[N, 8] x) => (float[N, 8] y) {
            big = Mul (x, thousands)
            little = Mul (big, small)
            same = MatMul (little, w)
            far = Add (same, million)
            y = Sub (far, million)
        }""",
        {
            "thousands": np.full(8, 50000.0, np.float32),
            "small": np.full(8, 1e-3, np.float32),
            "w": np.eye(8, dtype=np.float32),
            "million": np.full(8, 1e6, np.float32),
        },
    )


def branching() -> onnx.ModelProto:
    """A product in each arm; one reads what is made outside, the other a weight of the outside."""
    arms = {
        "then_branch": "one () => (float[N, 8] yes) { yes = MatMul (a, w2) }",
        "else_branch": "two () => (float[N, 8] no) { t = Add (a, a) no = MatMul (t, w) }",
    }
    made = model(
        """branch (float[N, 8] x) => (float[N, 8] y) {
            a = MatMul (x, w)
            m = ReduceMax <keepdims = 0> (a)
            c = Greater (m, zero)
            y = Identity (a)
        }""",
        {"w": drawn(8, 8), "zero": np.zeros((), np.float32)},
    )
    node = helper.make_node("If", ["c"], ["y"])
    for name, text in arms.items():
        graph = parser.parse_graph(text)
        if "w2" in text:
            graph.initializer.append(numpy_helper.from_array(drawn(8, 8, seed=1), "w2"))
        node.attribute.append(helper.make_attribute(name, graph))
    del made.graph.node[-1]
    made.graph.node.append(node)
    return made


def looping() -> onnx.ModelProto:
    """A product in the body of a loop, by a weight of the outside, which a power reads too."""
    made = model(
        """loop (float[N, 8] x) => (float[N, 8] y) {
            p = Pow (x, w)
            y = Add (p, x)
        }""",
        {
            "w": np.full((8, 8), 2.0, np.float32)[:1],
            "v": drawn(8, 8),
            "turns": np.array(3, np.int64),
            "on": np.array(True),
        },
    )
    body = parser.parse_graph(
        """body (int64 i, bool c, float[N, 8] s) => (bool go, float[N, 8] next) {
            go = Identity (c)
            t = MatMul (s, v)
            next = Mul (t, w)
        }"""
    )
    node = helper.make_node("Loop", ["turns", "on", "p"], ["q"], body=body)
    made.graph.node.insert(1, node)
    made.graph.node[2].input[0] = "q"
    onnx.checker.check_model(made, full_check=True)
    return made


def counting() -> onnx.ModelProto:
    """A place is computed in floats from a shape: 4097 has no half."""
    return model(
        """count (float[N, L] x) => (float[N, L] y, float[one] places) {
            s = Shape <start = 1, end = 2> (x)
            places = Cast <to = 1> (s)
            y = Mul (x, two)
        }""",
        {"two": np.full(1, 2.0, np.float32)},
    )


def defaults() -> onnx.ModelProto:
    """Of an old form in which every weight is an input as well."""
    made = perceptron()
    made.ir_version = 3
    made.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [64, 64]))
    return made


def run(made: "onnx.ModelProto | bytes", *rows: np.ndarray) -> list[np.ndarray]:
    """Return the first result of each row."""
    model = onnx.load_from_string(made) if isinstance(made, bytes) else made
    names = model.graph.input[0].name, [model.graph.output[0].name]
    found = results(model, [{names[0]: row} for row in rows], names[1])
    return [np.asarray(one) for (one,) in found]


def close(found: object, wanted: object, *, atol: float = 0.0, rtol: float = 0.0) -> None:
    left, right = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    np.testing.assert_allclose(left, right, atol=atol, rtol=rtol)


def types_at_border(made: onnx.ModelProto) -> Sequence[tuple[str, int]]:
    return [
        (value.name, value.type.tensor_type.elem_type)
        for value in (*made.graph.input, *made.graph.output)
    ]
