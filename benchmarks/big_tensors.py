"""Tensors of 1 MB and 64 MB, in requests and in shared memory, and 100,000 strings, one at a time.

The time of a request is from when it is sent to when its answer is there, with a client that only
sends and receives. Beside it stand the server's CPU time, and how much memory a server had at most
beyond what it had before: the tensor is in it once as it came, once as what the model made, and
once for each copy. MLServer is asked over gRPC alone: over HTTP it knows nothing but JSON.
"""

import json
import shutil
import socket
import statistics
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from harness import Outcome, options, report, summarize
from tritonclient.utils import shared_memory
from wire_calls import GrpcCall, HttpCall, grpc_infer, http_infer
from wire_load import check, time_grpc
from wire_models import BIG, Asked, asked, write_models
from wire_peers import serving
from wire_process import Server

Call = HttpCall | GrpcCall
MB = 1_000_000
STRINGS = 100_000


class Subject(NamedTuple):
    """What some servers are sent, `requests` times a round."""

    name: str
    calls: Mapping[str, Call]
    requests: int


def of_size(size: int) -> Asked:
    x = asked()["big"].inputs["x"][: size // 4]
    return Asked("big", {"x": x}, {"y": -x})


def strings() -> Asked:
    words = np.array([b"word %d" % number for number in range(STRINGS)], object)
    return Asked("words", {"x": words}, {"y": np.array([word.upper() for word in words], object)})


def subjects(servers: Sequence[Server]) -> Iterable[Subject]:
    http = [one for one in servers if one.http is not None and one.binary]
    grpc = [one for one in servers if one.grpc is not None]
    for name, request, requests in (
        ("1 MB", of_size(MB), 20),
        ("64 MB", of_size(BIG * 4), 1),
        (f"{STRINGS} strings", strings(), 1),
    ):
        yield Subject(f"{name}, http", dict.fromkeys(_names(http), http_infer(request)), requests)
        yield Subject(f"{name}, grpc", dict.fromkeys(_names(grpc), grpc_infer(request)), requests)


def in_memory(servers: Sequence[Server], folder: Path) -> Iterable[Subject]:
    """Return the same, with tensors in shared memory that the servers know by then."""
    own = [one for one in servers if one.name in ("headrace", "Triton")]
    for name, size, requests in (("1 MB", MB, 20), ("64 MB", BIG * 4, 1)):
        region = f"wire-{folder.name}-{size}"
        for server in own:
            register(server, region, 2 * size)
        body = json.dumps(
            {
                "inputs": [_placed("x", region, 0, size)],
                "outputs": [{"name": "y", "parameters": _place(region, size, size)}],
            }
        ).encode()
        call = HttpCall("/v2/models/big/infer", body)
        yield Subject(f"{name} in shared memory, http", dict.fromkeys(_names(own), call), requests)


def _placed(name: str, region: str, offset: int, size: int) -> Mapping[str, object]:
    shape = [size // 4]
    place = _place(region, offset, size)
    return {"name": name, "datatype": "FP32", "shape": shape, "parameters": place}


def _place(region: str, offset: int, size: int) -> Mapping[str, object]:
    return {
        "shared_memory_region": region,
        "shared_memory_offset": offset,
        "shared_memory_byte_size": size,
    }


def register(server: Server, region: str, size: int) -> None:
    body = json.dumps({"key": f"/{region}", "offset": 0, "byte_size": size}).encode()
    assert server.http is not None
    HttpCall(f"/v2/systemsharedmemory/region/{region}/register", body).check(server.http)


@contextmanager
def regions(folder: Path) -> Generator[None, None, None]:
    """Have regions that hold an input and have room for an output of its size."""
    with ExitStack() as stack:
        for size in (MB, BIG * 4):
            name = f"wire-{folder.name}-{size}"
            handle = shared_memory.create_shared_memory_region(name, f"/{name}", 2 * size)
            stack.callback(shared_memory.destroy_shared_memory_region, handle)
            shared_memory.set_shared_memory_region(handle, list(of_size(size).inputs.values()))
        yield


def _names(servers: Iterable[Server]) -> list[str]:
    return [server.name for server in servers]


def time_http(server: Server, call: HttpCall, requests: int) -> float:
    """Return the seconds of a request at the median, asking one after the other."""
    assert server.http is not None
    host, _, port = server.http.rpartition(":")
    headers = "".join(f"{name}: {value}\r\n" for name, value in call.headers.items())
    head = f"POST {call.path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(call.body)}\r\n"
    into = bytearray(1 << 20)
    times: list[float] = []
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(requests):
            start = time.perf_counter()
            connection.sendall(f"{head}\r\n".encode())
            connection.sendall(call.body)
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += connection.recv(1 << 16)
            told, _, content = answer.partition(b"\r\n\r\n")
            left = int(told.lower().split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0]) - len(
                content
            )
            while left:
                left -= connection.recv_into(into, min(left, len(into)))
            times.append(time.perf_counter() - start)
            if b" 200 " not in told.split(b"\r\n")[0]:
                raise RuntimeError(f"{server.name}: {told!r}")
    return statistics.median(times)


def measure(
    subject: Subject, servers: Mapping[str, Server], rounds: int
) -> tuple[list[Outcome], str]:
    """Ask the servers in turns; also tells what memory they took."""
    times: dict[str, list[float]] = {name: [] for name in subject.calls}
    costs: dict[str, list[float]] = {name: [] for name in subject.calls}
    memory: dict[str, int] = {}
    for name, call in subject.calls.items():
        server = servers[name]
        before = server.memory(reset=True)
        check(server, call)
        memory[name] = server.memory() - before
    for number in range(rounds):
        turns = list(subject.calls.items())
        for name, call in turns if number % 2 else reversed(turns):
            server = servers[name]
            before = server.cpu_seconds()
            ask = time_http if isinstance(call, HttpCall) else time_grpc
            times[name].append(ask(server, call, subject.requests))  # type: ignore[arg-type]
            costs[name].append((server.cpu_seconds() - before) / subject.requests)
    told = ", ".join(f"{name} {size / MB:.0f} MB" for name, size in memory.items())
    return [
        summarize(subject.name, rounds, subject.requests, times),
        summarize(f"{subject.name}, CPU", rounds, subject.requests, costs),
    ], f"memory at most, {subject.name}: {told}"


def main() -> None:
    parser = options("Large tensors, over the wire and in shared memory.", rounds=3)
    parser.add_argument("--server", action="append", help="ours and these; default all")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headrace-big-"))
    write_models(folder)
    outcomes: list[Outcome] = []
    notes: list[str] = []
    with (
        regions(folder),
        serving(folder, given.server, ("--allow", "shared-memory")) as (servers, skipped),
    ):
        by_name = {server.name: server for server in servers}
        for subject in (*subjects(servers), *in_memory(servers, folder)):
            found, told = measure(subject, by_name, given.rounds)
            outcomes += found
            if "64 MB" in subject.name:
                notes.append(told)
        notes += [", ".join(f"{one.name} {one.version}" for one in servers), *skipped]
    shutil.rmtree(folder)
    report("big_tensors", outcomes, notes)


if __name__ == "__main__":
    main()
