"""What a request costs a server in CPU time, beside a bare server on the same carrier.

Servers are processes of their own (wire_servers.py) and stay up for the whole run; in each round
each answers the same number of requests, `--in-flight` at a time, and its CPU time is read from
/proc before and after. The ratio is ours over bare: 1.2 means a fifth more than the least that
would answer at all.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from harness import Outcome, options, report, summarize
from wire_servers import WIDTH

from headrace.runtime.protocols.messages import ModelInferRequest

Load = Callable[[int, int, int], Coroutine[Any, Any, None]]
"""Sends a number of requests to a port, so many at a time."""

CARRIERS = ("native", "grpcio", "http")
_TICKS = os.sysconf("SC_CLK_TCK")


def grpc_request() -> bytes:
    message = ModelInferRequest(model_name="tiny")
    tensor = message.inputs.add()
    tensor.name, tensor.datatype = "x", "FP32"
    tensor.shape.append(WIDTH)
    message.raw_input_contents.append(np.zeros(WIDTH, np.float32).tobytes())
    return message.SerializeToString()


async def load_grpc(port: int, requests: int, in_flight: int) -> None:
    payload = grpc_request()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")

        async def worker() -> None:
            for _ in range(requests // in_flight):
                await call(payload)

        await asyncio.gather(*(worker() for _ in range(in_flight)))


def http_request() -> bytes:
    raw = np.zeros(WIDTH, np.float32).tobytes()
    tensor = {"name": "x", "datatype": "FP32", "shape": [WIDTH]}
    size = {"binary_data_size": len(raw)}
    head = json.dumps(
        {"inputs": [tensor | {"parameters": size}], "parameters": {"binary_data_output": True}}
    )
    return (
        "POST /v2/models/tiny/infer HTTP/1.1\r\nHost: x\r\n"
        f"Inference-Header-Content-Length: {len(head)}\r\n"
        f"Content-Length: {len(head) + len(raw)}\r\n\r\n{head}"
    ).encode() + raw


async def load_http(port: int, requests: int, in_flight: int) -> None:
    payload = http_request()

    async def worker() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(requests // in_flight):
            writer.write(payload)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            length = head.lower().partition(b"\r\ncontent-length: ")[2]
            await reader.readexactly(int(length.split(b"\r\n")[0]))
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(worker() for _ in range(in_flight)))


@dataclass(frozen=True, slots=True)
class Server:
    """A server process and the port it answers on."""

    pid: int
    port: int

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@contextmanager
def started(kind: str, carrier: str) -> Generator[Server, None, None]:
    script = Path(__file__).with_name("wire_servers.py")
    command = [sys.executable, script, kind, carrier]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Server(process.pid, int(process.stdout.readline()))
        finally:
            process.terminate()


def compare(carrier: str, rounds: int, requests: int, in_flight: int) -> Outcome:
    """Measure ours and the bare server of a carrier in turn."""
    load = load_http if carrier == "http" else load_grpc
    with started("ours", carrier) as ours, started("bare", carrier) as bare:
        servers = {"ours": ours, "bare": bare}
        costs: dict[str, list[float]] = {kind: [] for kind in servers}
        for number in range(rounds + 1):
            order = list(servers) if number % 2 else list(reversed(servers))
            for kind in order:
                before = servers[kind].cpu_seconds()
                asyncio.run(load(servers[kind].port, requests, in_flight))
                cost = (servers[kind].cpu_seconds() - before) / requests
                if number:  # the first round warms up
                    costs[kind].append(cost)
    return summarize(f"{carrier}, CPU a request", rounds, requests, costs)


def main() -> None:
    parser = options("What a request costs a server in CPU time.", rounds=5)
    parser.add_argument("--requests", type=int, default=6400, help="a round; default 6400")
    parser.add_argument("--in-flight", type=int, default=32, help="default 32")
    parser.add_argument("--carrier", choices=CARRIERS, action="append", help="default all")
    given = parser.parse_args()
    outcomes = [
        compare(carrier, given.rounds, given.requests, given.in_flight)
        for carrier in given.carrier or CARRIERS
    ]
    notes = [
        f"{outcome.subject}: ours costs {1 / outcome.ratios[0].median:.2f} x of bare "
        f"({1 / outcome.ratios[0].high:.2f} to {1 / outcome.ratios[0].low:.2f})"
        for outcome in outcomes
    ]
    report("wire_cpu", outcomes, notes)


if __name__ == "__main__":
    main()
