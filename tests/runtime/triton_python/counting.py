"""A model that answers any number of times, from threads of its own."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
import os
import threading
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        for one in requests:
            count = int(one.inputs()[0].as_numpy()[0])
            threading.Thread(target=self.count, args=(one, count)).start()

    def count(self, request, count):
        sender = request.get_response_sender()
        if count < 0:
            sender.send(pb.InferenceResponse(error=pb.TritonError("none")), 1)
            return
        for n in range(count):
            sender.send(pb.InferenceResponse([pb.Tensor("N", np.array([n], np.int32))]))
        if count == 99:
            place = Path(os.environ["PIPES"])
            (place / f"{request.request_id()}.go").read_text()
            (place / f"{request.request_id()}.seen").write_text(str(request.is_cancelled()))
        sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
