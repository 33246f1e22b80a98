"""Load from programs in C, so that what asks is not what limits: wrk for HTTP, h2load for gRPC.

`apt-get install wrk nghttp2-client`. Both keep a number of requests in flight for a second: wrk
on a connection each, h2load as streams of one connection, which is how channels are used. A
request that fails, or an answer of another length than the right one, is an error here.
"""

import json
import re
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from wire_calls import GrpcCall, HttpCall
from wire_process import Server

_SECONDS = 1
_SCRIPT = """
local file = io.open("{body}", "rb")
wrk.body = file:read("*a")
file:close()
wrk.method = "{method}"
{headers}
function done(summary, latency, requests)
    local errors = summary.errors
    io.write(string.format(
        "JSON[%d, %d, %d, %f, %f]\\n", summary.requests, summary.duration,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout,
        latency:percentile(50), latency:percentile(99)))
end
"""


class Load(NamedTuple):
    """What a second of load gave: requests a second, seconds at the median and the 99th percentile,
    the server's CPU seconds a request."""

    rate: float
    median: float
    late: float
    cpu: float


def check(server: Server, call: HttpCall | GrpcCall) -> None:
    """Ask a server once; RuntimeError when its answer is not right."""
    address = server.http if isinstance(call, HttpCall) else server.grpc
    assert address is not None
    try:
        call.check(address)
    except (RuntimeError, OSError) as error:
        raise RuntimeError(f"{server.name}: {error}") from None


def drive(server: Server, call: HttpCall | GrpcCall, in_flight: int) -> Load:
    """Load a server for a second with so many requests at a time."""
    match call:
        case HttpCall():
            return _drive_http(server, call, in_flight)
        case GrpcCall():
            return _drive_grpc(server, call, in_flight)


def _drive_http(server: Server, call: HttpCall, in_flight: int) -> Load:
    with tempfile.TemporaryDirectory() as folder:
        body, script = Path(folder, "body"), Path(folder, "load.lua")
        body.write_bytes(call.body)
        headers = "\n".join(
            f'wrk.headers["{name}"] = "{value}"' for name, value in call.headers.items()
        )
        method = "POST" if call.body else "GET"
        script.write_text(_SCRIPT.format(body=body, method=method, headers=headers))
        command = ["wrk", "-t1", f"-c{in_flight}", f"-d{_SECONDS}s", "-s", str(script)]
        before = server.cpu_seconds()
        told = _run([*command, f"http://{server.http}{call.path}"])
        spent = server.cpu_seconds() - before
    found = re.search(r"JSON(\[.*\])", told)
    assert found is not None, told
    requests, micros, errors, median, late = json.loads(found[1])
    if errors:
        raise RuntimeError(f"{server.name}: {errors} of {requests} requests to {call.path} failed")
    rate = requests / (micros * 1e-6)
    return Load(rate, median * 1e-6, late * 1e-6, spent / requests)


def _drive_grpc(server: Server, call: GrpcCall, in_flight: int) -> Load:
    assert server.grpc is not None
    length = call.check(server.grpc)
    before = server.cpu_seconds()
    told, times = _h2load(server, call, in_flight, f"-D{_SECONDS}")
    spent = server.cpu_seconds() - before
    requests = _number(told, r"(\d+) succeeded")
    received = _number(told, r"\((\d+)\) data")
    if not requests * length <= received <= (requests + in_flight) * length:
        raise RuntimeError(
            f"{server.name}: {requests} answers of {length} bytes are {received} bytes:\n{told}"
        )
    ordered = statistics.quantiles(times, n=100) if len(times) > 1 else times * 99
    return Load(requests / _SECONDS, ordered[49], ordered[98], spent / requests)


def _h2load(
    server: Server, call: GrpcCall, in_flight: int, how_many: str
) -> tuple[str, list[float]]:
    """Return what h2load told, and the seconds of each call."""
    with tempfile.TemporaryDirectory() as folder:
        body, log = Path(folder, "body"), Path(folder, "log")
        body.write_bytes(b"\0" + len(call.body).to_bytes(4) + call.body)
        command = ["h2load", "-t1", "-c1", f"-m{in_flight}", how_many, "-w30", "-W30"]
        command += [f"--data={body}", f"--log-file={log}"]
        command += ["--header=content-type: application/grpc", "--header=te: trailers"]
        told = _run([*command, f"http://{server.grpc}{call.path}"])
        return told, [int(line.split()[2]) * 1e-6 for line in log.read_text().splitlines()]


def time_grpc(server: Server, call: GrpcCall, requests: int) -> float:
    """Return the seconds of a call at the median, asking one after the other."""
    return statistics.median(_h2load(server, call, 1, f"-n{requests}")[1])


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def _number(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"no {pattern} in {text}")
    return int(found[1])
