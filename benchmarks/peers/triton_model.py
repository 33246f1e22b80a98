"""The wire benchmarks' models in Triton's Python backend.

WIRE_MODELS is the ONNX files' folder, WIRE_PACKAGES where onnxruntime is: the backend's interpreter
looks at no PYTHONPATH.
"""

# pyright: basic, reportMissingImports=false, reportIndexIssue=false
import json
import os
import sys
from pathlib import Path

sys.path.append(os.environ["WIRE_PACKAGES"])

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args) -> None:
        self.name = json.loads(args["model_config"])["name"]
        path = Path(os.environ["WIRE_MODELS"], f"{self.name}.onnx")
        if path.exists():
            settings = onnxruntime.SessionOptions()
            settings.intra_op_num_threads = 1
            self.session = onnxruntime.InferenceSession(
                path, settings, providers=["CPUExecutionProvider"]
            )
            self.inputs = [one.name for one in self.session.get_inputs()]
            self.outputs = [one.name for one in self.session.get_outputs()]

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        if self.name == "words":
            x = pb.get_input_tensor_by_name(request, "x").as_numpy()
            upper = np.array([word.decode().upper().encode() for word in x], object)
            return pb.InferenceResponse([pb.Tensor("y", upper)])
        inputs = {
            name: pb.get_input_tensor_by_name(request, name).as_numpy() for name in self.inputs
        }
        if self.name != "big":
            inputs = {name: array[np.newaxis] for name, array in inputs.items()}
        results = self.session.run(self.outputs, inputs)
        if self.name != "big":
            results = [array[0] for array in results]
        return pb.InferenceResponse(
            [pb.Tensor(name, array) for name, array in zip(self.outputs, results, strict=True)]
        )
