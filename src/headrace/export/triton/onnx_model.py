"""An ONNX model in Triton's Python backend, for servers without the ONNX Runtime backend.

It runs `model.onnx` beside it. Requests whose rows have one shape are run as one batch.
"""

# pyright: basic, reportMissingImports=false, reportIndexIssue=false
import json
from pathlib import Path

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args) -> None:
        config = json.loads(args["model_config"])
        self.batched = config["max_batch_size"] > 0
        settings = onnxruntime.SessionOptions()
        threads = config.get("parameters", {}).get("intra_op_thread_count")
        settings.intra_op_num_threads = int(threads["string_value"]) if threads else 1
        path = Path(args["model_repository"], args["model_version"], "model.onnx")
        self.session = onnxruntime.InferenceSession(
            path, settings, providers=["CPUExecutionProvider"]
        )
        self.inputs = [one.name for one in self.session.get_inputs()]
        self.outputs = [one.name for one in self.session.get_outputs()]

    def execute(self, requests):
        given = [self.feeds(request) for request in requests]
        alike = {}
        for index, feeds in enumerate(given):
            shapes = [(name, array.shape[1:]) for name, array in feeds.items()]
            key = (*shapes,) if self.batched else index
            alike.setdefault(key, []).append(index)
        answers = [None] * len(requests)
        for indices in alike.values():
            for index, answer in zip(indices, self.run([given[i] for i in indices]), strict=True):
                answers[index] = answer
        return answers

    def feeds(self, request):
        found = {name: pb.get_input_tensor_by_name(request, name) for name in self.inputs}
        return {name: decoded(one.as_numpy()) for name, one in found.items() if one is not None}

    def run(self, given):
        try:
            if len(given) == 1:
                return [self.response(self.session.run(self.outputs, given[0]))]
            stacked = {name: np.concatenate([one[name] for one in given]) for name in given[0]}
            results = self.session.run(self.outputs, stacked)
        except Exception as error:
            if len(given) > 1:  # a bad row fails its own request only
                return [answer for one in given for answer in self.run([one])]
            return [pb.InferenceResponse(error=pb.TritonError(str(error)))]
        ends = np.cumsum([len(next(iter(one.values()))) for one in given])[:-1]
        parts = [np.split(np.asarray(array), ends) for array in results]
        return [self.response(rows) for rows in zip(*parts, strict=True)]

    def response(self, arrays):
        tensors = [
            pb.Tensor(name, encoded(array))
            for name, array in zip(self.outputs, arrays, strict=True)
        ]
        return pb.InferenceResponse(tensors)


def decoded(array):
    if array.dtype != object:
        return array
    return np.array([one.decode() for one in array.ravel()], object).reshape(array.shape)


def encoded(array):
    if array.dtype.kind not in "OUS":
        return np.ascontiguousarray(array)
    text = [one.encode() if isinstance(one, str) else one for one in array.ravel().tolist()]
    return np.array([*text, None], object)[:-1].reshape(array.shape)
