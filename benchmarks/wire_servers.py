"""Bare servers: the least that answers the same requests on the same carriers.

Each parses the message, runs the same session and builds the reply, and does nothing else: no
checks, no metrics, no deadlines.

    python wire_servers.py FOLDER http|grpcio|native      prints its port and serves until killed
"""

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import uvicorn
import uvloop
from pygrpc_native import EVENT_CALL, NativeGrpcFront
from tritonclient.grpc import service_pb2, service_pb2_grpc
from wire_calls import array_of, described, raw_of
from wire_models import EMITTED, Arrays, computing

Models: TypeAlias = Mapping[str, Callable[[Arrays], Arrays]]

_PB: Any = service_pb2  # Any: made at run time


def reply(models: Models, message: Any) -> Any:  # Any: messages
    """Answer a ModelInferRequest."""
    inputs = {
        tensor.name: array_of({"datatype": tensor.datatype, "shape": tensor.shape}, raw)
        for tensor, raw in zip(message.inputs, message.raw_input_contents, strict=True)
    }
    answer = _PB.ModelInferResponse(model_name=message.model_name, model_version="1", id=message.id)
    for name, array in models[message.model_name](inputs).items():
        answer.outputs.add(**described(name, array))
        answer.raw_output_contents.append(raw_of(array))
    return answer


def emitted(number: int) -> Any:  # Any: a message
    """Return a response of the stream."""
    answer = _PB.ModelInferResponse(model_name="count", model_version="1")
    answer.outputs.add(name="n", datatype="INT64", shape=[1])
    answer.raw_output_contents.append(number.to_bytes(8, "little"))
    return _PB.ModelStreamInferResponse(infer_response=answer)


def serve_native(models: Models) -> None:
    """Serve gRPC on pygrpc-native's own loop."""
    front = NativeGrpcFront(
        "127.0.0.1:0", [("/inference.GRPCInferenceService/ModelInfer", False)], io_threads=1
    )
    front.start()
    print(front.bound_port, flush=True)
    while (events := front.recv_batch(64)) is not None:
        for kind, call_id, _, payload, _ in events:
            if kind == EVENT_CALL:
                message = _PB.ModelInferRequest.FromString(payload)
                front.respond(call_id, reply(models, message).SerializeToString())


def serve_grpcio(models: Models) -> None:
    """Serve gRPC with a servicer of grpc.aio."""

    class Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):
        async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: ARG002
            return reply(models, request)

        async def ModelStreamInfer(self, request_iterator: Any, context: Any) -> Any:  # noqa: ARG002
            async for _ in request_iterator:
                for number in range(EMITTED):
                    yield emitted(number)

    async def main() -> None:
        unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        server = grpc.aio.server(options=unlimited)
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Servicer(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        print(port, flush=True)
        await server.wait_for_termination()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def serve_http(models: Models) -> None:
    """Serve HTTP with an ASGI application of one function."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        if scope["path"].endswith("/generate_stream"):
            await stream(send)
            return
        parts = [message["body"]]
        while message.get("more_body"):
            message = await receive()
            parts.append(message["body"])
        body = memoryview(b"".join(parts))
        length = int(dict(scope["headers"])[b"inference-header-content-length"])
        inputs: dict[str, Any] = {}
        rest = body[length:]
        for tensor in json.loads(bytes(body[:length]))["inputs"]:
            size = tensor["parameters"]["binary_data_size"]
            inputs[tensor["name"]] = array_of(tensor, bytes(rest[:size]))
            rest = rest[size:]
        name = scope["path"].split("/")[3]
        outputs: list[dict[str, Any]] = []
        raws: list[bytes] = []
        for output, array in models[name](inputs).items():
            raws.append(raw_of(array))
            size = {"binary_data_size": len(raws[-1])}
            outputs.append(described(output, array) | {"parameters": size})
        answer = {"model_name": name, "model_version": "1", "outputs": outputs}
        head = json.dumps(answer).encode()
        content = b"".join((head, *raws))
        headers = [
            (b"content-type", b"application/octet-stream"),
            (b"inference-header-content-length", b"%d" % len(head)),
            (b"content-length", b"%d" % len(content)),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def stream(send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number in range(EMITTED):
            event = json.dumps({"model_name": "count", "model_version": "1", "n": number})
            body = f"data: {event}\n\n".encode()
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", lifespan="off", access_log=False, log_config=None
    )
    uvicorn.Server(config).run(sockets=[listening])


SERVERS = {"http": serve_http, "grpcio": serve_grpcio, "native": serve_native}

if __name__ == "__main__":
    SERVERS[sys.argv[2]](computing(Path(sys.argv[1])))
