"""The servers that wire_cpu.py compares, each a process: ours, and the barest that does the same.

A bare server parses the same message, runs the same session and builds the same reply on the same
carrier, and does nothing else: no names, no checks, no metrics, no deadlines.

    python wire_servers.py ours native      prints its port and serves until killed
"""

import asyncio
import json
import socket
import sys
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import onnxruntime
import uvicorn
import uvloop
from onnx import TensorProto, helper, numpy_helper
from pygrpc_native import EVENT_CALL, NativeGrpcFront
from tritonclient.grpc import service_pb2, service_pb2_grpc

from headrace.compiler.plan import (
    Block,
    CallStep,
    ModelSegment,
    Parameter,
    PipelinePlan,
    Place,
    Plan,
)
from headrace.dsl.types import DType, Field, Signature, TensorType
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.protocols.messages import ModelInferRequest, ModelInferResponse
from headrace.runtime.request import Request
from headrace.runtime.server import serve
from headrace.runtime.server_config import Carrier, ServerConfig

WIDTH = 64
IO_THREADS = 1


def tiny_model() -> bytes:
    """x + 1 with a batch axis: what is left is the cost of the way there and back."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["y"])],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", WIDTH])],
        [numpy_helper.from_array(np.array(1, np.float32), "one")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def bare_run() -> Callable[[np.ndarray], np.ndarray]:
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session: Any = onnxruntime.InferenceSession(  # Any: it says too little of what run returns
        tiny_model(), settings, providers=["CPUExecutionProvider"]
    )

    def run(x: np.ndarray) -> np.ndarray:
        return session.run(["y"], {"x": x})[0]

    return run


def bare_reply(run: Callable[[np.ndarray], np.ndarray], message: Any, response: Any) -> Any:
    """Answer a ModelInferRequest with a ModelInferResponse of class `response`."""
    tensor = message.inputs[0]
    x = np.frombuffer(message.raw_input_contents[0], np.float32).reshape(tensor.shape)
    y = run(x[np.newaxis])[0]
    reply = response(model_name=message.model_name, model_version="1", id=message.id)
    output = reply.outputs.add()
    output.name = "y"
    output.datatype = "FP32"
    output.shape.extend(y.shape)
    reply.raw_output_contents.append(y.tobytes())
    return reply


def bare_native() -> None:
    run = bare_run()
    front = NativeGrpcFront(
        "127.0.0.1:0",
        [("/inference.GRPCInferenceService/ModelInfer", False)],
        io_threads=IO_THREADS,
    )
    front.start()
    print(front.bound_port, flush=True)
    while (events := front.recv_batch(64)) is not None:
        for kind, call_id, _, payload, _ in events:
            if kind == EVENT_CALL:
                message = ModelInferRequest.FromString(payload)
                reply = bare_reply(run, message, ModelInferResponse)
                front.respond(call_id, reply.SerializeToString())


def bare_grpcio() -> None:
    run = bare_run()
    messages: Any = service_pb2  # Any: made at run time

    class Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):
        async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: ARG002
            return bare_reply(run, request, messages.ModelInferResponse)

    async def main() -> None:
        server = grpc.aio.server()
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Servicer(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        print(port, flush=True)
        await server.wait_for_termination()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def bare_http() -> None:
    run = bare_run()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        body = message["body"]
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        length = int(dict(scope["headers"])[b"inference-header-content-length"])
        request = json.loads(body[:length])
        tensor = request["inputs"][0]
        x = np.frombuffer(body[length:], np.float32).reshape(tensor["shape"])
        y = run(x[np.newaxis])[0]
        raw = y.tobytes()
        output = {
            "name": "y",
            "datatype": "FP32",
            "shape": y.shape,
            "parameters": {"binary_data_size": len(raw)},
        }
        reply = {"model_name": "tiny", "model_version": "1", "outputs": [output]}
        head = json.dumps(reply).encode()
        headers = [
            (b"content-type", b"application/octet-stream"),
            (b"inference-header-content-length", b"%d" % len(head)),
            (b"content-length", b"%d" % (len(head) + len(raw))),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": head + raw})

    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", lifespan="off", access_log=False, log_config=None
    )
    uvicorn.Server(config).run(sockets=[listening])


def tiny_plan() -> Plan:
    field = TensorType(DType.F32, (WIDTH,))
    signature = Signature((Field("x", field),), (Field("y", field),))
    place = Place("tiny.pipe", 1, 1, "return y = tiny(x)")
    segment = ModelSegment(
        name="tiny",
        members=("tiny",),
        model="tiny",
        signature=signature,
        input_names=("x",),
        output_names=("y",),
        input_axes=(0,),
        output_axes=(0,),
        device="cpu",
        batching=None,
        group=1,
        instances=None,
        queueing=None,
        checks=(),
        place=place,
    )
    body = Block((0,), (), (), (CallStep(0, (0,), (1,), place),), (1,), 2, ((0,),))
    parameter = Parameter(signature.params[0], False, None)
    pipeline = PipelinePlan("tiny", (parameter,), signature.results, body, None, None, None, place)
    return Plan("0", (pipeline,), (segment,), (), (), (), (("tiny", tiny_model()),))


def ours(carrier: Carrier, http: bool) -> None:
    engine = Engine(tiny_plan(), EngineConfig(intra_op_threads=1))
    for _ in range(100):  # as long as it takes the engine to know that this is cheap
        engine.call(Request("tiny", {"x": np.zeros(WIDTH, np.float32)}))
    config = ServerConfig(
        http_port=0, grpc_port=0, metrics_port=None, carrier=carrier, grpc_io_threads=IO_THREADS
    )
    server = serve([engine], config)
    address = server.addresses.http if http else server.addresses.grpc
    print(str(address).rpartition(":")[2], flush=True)
    server.wait()


SERVERS: dict[tuple[str, str], Callable[[], None]] = {
    ("ours", "native"): lambda: ours(Carrier.NATIVE, http=False),
    ("bare", "native"): bare_native,
    ("ours", "grpcio"): lambda: ours(Carrier.GRPCIO, http=False),
    ("bare", "grpcio"): bare_grpcio,
    ("ours", "http"): lambda: ours(Carrier.NATIVE, http=True),
    ("bare", "http"): bare_http,
}

if __name__ == "__main__":
    SERVERS[sys.argv[1], sys.argv[2]]()
