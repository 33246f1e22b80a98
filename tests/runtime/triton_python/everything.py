"""The model of the tests: what it does with a request is said by the request's `DO`."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
import asyncio
import json
import os
import threading
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.args, self.calls, self.seen = args, 0, {}
        self.folder = json.loads(args["model_config"])["parameters"]["folder"]["string_value"]
        family = pb.MetricFamily("asked_total", "Requests asked", pb.MetricFamily.COUNTER)
        self.metric = family.Metric(labels={"model": args["model_name"]})

    def execute(self, requests):
        self.calls += 1
        self.metric.increment(len(requests))
        return [self.answer(request, len(requests)) for request in requests]

    def answer(self, request, together):
        self.request, self.together = request, together
        rows = pb.get_input_tensor_by_name(request, "DO").as_numpy()
        do, *rest = rows.ravel()[0].decode().split()
        found = getattr(self, f"do_{do}")(*rest)
        if not isinstance(found, str):
            return found
        texts = np.full(rows.shape, found, object)
        return pb.InferenceResponse([pb.Tensor("SAID", texts)])

    def do_request(self):
        return json.dumps(
            {
                "id": self.request.request_id(),
                "parameters": json.loads(self.request.parameters()),
                "timeout": self.request.timeout() > 0,
                "rows": self.request.inputs()[0].shape()[0],
                "outputs": sorted(self.request.requested_output_names()),
                "together": self.together,
                "calls": self.calls,
            }
        )

    def do_hold(self, name):
        Path(self.folder, name + ".begun").write_text("x")
        return Path(self.folder, name).read_text()

    def do_raise(self):
        raise ValueError("boom")

    def do_leave(self, kind):
        raise {"SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt}[kind]("bye")

    def do_folder(self):
        from triton_python_backend_utils import get_model_dir

        return get_model_dir()

    def do_refuse(self):
        return pb.InferenceResponse(error=pb.TritonError("not so", pb.TritonError.INVALID_ARG))

    def do_nothing(self):
        return pb.InferenceResponse([])

    def do_sender(self):
        sender = self.request.get_response_sender()

        def send():
            said = pb.Tensor("SAID", np.array([["from a thread"]], object))
            sender.send(pb.InferenceResponse([said]), pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

        threading.Thread(target=send).start()

    def do_again(self, times):
        at = self.seen.get(self.request.request_id(), 0) + 1
        self.seen[self.request.request_id()] = at
        if at < int(times):
            self.request.set_release_flags(pb.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            return None
        return f"after {at}"

    def do_die(self):
        os._exit(3)

    def do_config(self):
        return self.args["model_config"]

    def do_log(self):
        pb.Logger.log_warn("a line\nof two")
        pb.Logger.log("another", pb.Logger.INFO)
        return "logged"

    def nested(self, model, do, **options):
        said = pb.Tensor("DO", np.array([[do]], object))
        return pb.InferenceRequest(
            model_name=model, inputs=[said], requested_output_names=["SAID"], **options
        )

    def said(self, response):
        if response.has_error():
            return f"{response.error().code()} {response.error().message()}"
        return response.output_tensors()[0].as_numpy().ravel()[0].decode()

    def do_ask(self, model, *do):
        nested = self.nested(model, " ".join(do), request_id="inner", trace=self.request.trace())
        return self.said(nested.exec())

    def do_many(self, model, count):
        async def all():
            asked = [self.nested(model, "request") for _ in range(int(count))]
            return await asyncio.gather(*[one.async_exec() for one in asked])

        return json.dumps([json.loads(self.said(one)) for one in asyncio.run(all())])

    def do_within(self, model, *do):
        async def asked():
            return self.do_ask(model, *do)

        return asyncio.run(asked())

    def do_late(self, model):
        return self.said(self.nested(model, "hold never", timeout=1000).exec())

    def do_stream(self, count):
        given = pb.Tensor("COUNT", np.array([int(count)], np.int32))
        nested = pb.InferenceRequest(
            model_name="numbers", inputs=[given], requested_output_names=["N"]
        )
        found = nested.exec(decoupled=True)
        return json.dumps([one.output_tensors()[0].as_numpy().tolist() for one in found])

    def do_ready(self):
        return json.dumps([pb.is_model_ready("inner"), pb.is_model_ready("nobody")])

    def finalize(self):
        print("finalized")
