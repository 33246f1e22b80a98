"""The wire benchmarks' models in MLServer: settings name this class and the ONNX files' folder."""

# pyright: basic, reportMissingImports=false, reportIndexIssue=false
import os
from pathlib import Path

import numpy as np
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.types import InferenceRequest, InferenceResponse


class WireModel(MLModel):
    async def load(self) -> bool:
        path = Path(os.environ["WIRE_MODELS"], f"{self.name}.onnx")
        if path.exists():
            settings = onnxruntime.SessionOptions()
            settings.intra_op_num_threads = 1
            self.session = onnxruntime.InferenceSession(
                path, settings, providers=["CPUExecutionProvider"]
            )
            self.names = [output.name for output in self.session.get_outputs()]
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        if self.name == "words":
            words = StringCodec.decode_input(payload.inputs[0])
            upper = [word.upper() for word in words]
            outputs = [StringCodec.encode_output("y", upper)]
        else:
            inputs = {one.name: NumpyCodec.decode_input(one) for one in payload.inputs}
            if self.name != "big":
                inputs = {name: array[np.newaxis] for name, array in inputs.items()}
            results = self.session.run(self.names, inputs)
            if self.name != "big":
                results = [array[0] for array in results]
            outputs = [
                NumpyCodec.encode_output(name, array)
                for name, array in zip(self.names, results, strict=True)
            ]
        return InferenceResponse(model_name=self.name, model_version="1", outputs=outputs)
