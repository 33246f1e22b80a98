"""Requests a second and server CPU a request, beside bare servers, MLServer and Triton.

Every server is a process, stays up for the whole run, and answers the same requests from the same
load generator (wire_load.py), in turns. Before it is timed, each answer is compared with the right
one. The CPU time is that of all of a server's processes.

Fails where a limit is not held: HTTP with a tiny model at least 0.85 of the requests a second of a
bare uvicorn; gRPC on the native carrier at least 4 times those of a bare grpc.aio servicer, and at
most 1.5 times the CPU of pygrpc-native's own loop. Both at 32 in flight. The default carrier is
grpcio, and stands beside it.
"""

import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import wire_calls
from harness import duration, keep, options
from wire_calls import GrpcCall, HttpCall
from wire_load import Load, check, drive
from wire_models import EMITTED, asked, write_models
from wire_peers import NATIVE, serving
from wire_process import Server

LIMITS = (
    ("tiny, http, 32", "headrace", "bare uvicorn", "rate", 0.85),
    ("tiny, grpc, 32", NATIVE, "bare grpcio", "rate", 4.0),
    ("tiny, grpc, 32", NATIVE, "bare pygrpc-native", "cpu", 1.5),
)
"""Subject, server, peer, what of it, and the least rate or the most CPU beside the peer's."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A load: what each server that can take it is sent, and how many at a time."""

    name: str
    calls: Mapping[str, HttpCall | GrpcCall]
    in_flight: int


@dataclass(frozen=True, slots=True)
class Figure:
    """A server's load of one subject, medians over rounds, and as a multiple of ours."""

    subject: str
    server: str
    load: Load
    of_ours: Load


def subjects(servers: Sequence[Server]) -> list[Subject]:
    requests = asked()
    own = [one for one in servers if not one.name.startswith("bare")]
    streaming = [one for one in servers if one.name in ("headrace", "bare uvicorn", "bare grpcio")]
    found: list[Subject] = []
    for model, in_flights in (("tiny", (1, 8, 32)), ("words", (8,)), ("image", (8,))):
        request = requests[model]

        def infer(server: Server, request: wire_calls.Asked = request) -> HttpCall:
            return wire_calls.http_infer(request, binary=server.binary)

        for in_flight in in_flights:
            found += _both(model, servers, infer, wire_calls.grpc_infer(request), in_flight)
    live, metadata = wire_calls.http_live(), wire_calls.http_metadata()
    stream = wire_calls.http_stream()
    return [
        *found,
        *_both("live", own, lambda _: live, wire_calls.grpc_live(), 8),
        *_both("metadata", own, lambda _: metadata, wire_calls.grpc_metadata(), 8),
        *_both(f"stream of {EMITTED}", streaming, lambda _: stream, wire_calls.grpc_stream(), 8),
    ]


def _both(
    name: str,
    servers: Iterable[Server],
    http: Callable[[Server], HttpCall],
    grpc: GrpcCall,
    in_flight: int,
) -> tuple[Subject, Subject]:
    """Return the subject over both protocols."""
    over_http = {one.name: http(one) for one in servers if one.http is not None}
    over_grpc = {one.name: grpc for one in servers if one.grpc is not None}
    return (
        Subject(f"{name}, http, {in_flight}", over_http, in_flight),
        Subject(f"{name}, grpc, {in_flight}", over_grpc, in_flight),
    )


def measure(subject: Subject, servers: Mapping[str, Server], rounds: int) -> list[Figure]:
    """Check each server's answer, then drive the servers in turns; the first turn warms up."""
    loads: dict[str, list[Load]] = {name: [] for name in subject.calls}
    for name, call in subject.calls.items():
        check(servers[name], call)
    for number in range(rounds + 1):
        turns = list(subject.calls.items())
        for name, call in turns if number % 2 else reversed(turns):
            loads[name].append(drive(servers[name], call, subject.in_flight))
    loads = {name: measured[1:] for name, measured in loads.items()}
    ours = loads["headrace"]
    return [
        Figure(subject.name, name, _medians(theirs), _medians(map(_ratios, theirs, ours)))
        for name, theirs in loads.items()
    ]


def _medians(loads: Iterable[Load]) -> Load:
    return Load(*map(statistics.median, zip(*loads, strict=True)))


def _ratios(theirs: Load, ours: Load) -> Load:
    return Load(*(their / max(our, 1e-9) for their, our in zip(theirs, ours, strict=True)))


def table(figures: Iterable[Figure]) -> str:
    heads = ("subject", "server", "requests/s", "of ours", "CPU", "of ours", "p50", "p99")
    rows: list[tuple[str, ...]] = [heads]
    for figure in figures:
        load, of_ours = figure.load, figure.of_ours
        rows.append(
            (
                figure.subject,
                figure.server,
                f"{load.rate:.0f}",
                f"{of_ours.rate:.2f} x",
                duration(load.cpu),
                f"{of_ours.cpu:.2f} x",
                duration(load.median),
                duration(load.late),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def limits(figures: Iterable[Figure]) -> list[tuple[str, bool]]:
    """Return what is to hold, in words, and whether it does."""
    found = {(figure.subject, figure.server): figure.of_ours for figure in figures}
    told: list[tuple[str, bool]] = []
    for subject, ours, bare, field, bound in LIMITS:
        mine, theirs = found.get((subject, ours)), found.get((subject, bare))
        if mine is not None and theirs is not None:
            share = getattr(mine, field) / getattr(theirs, field)
            least = field == "rate"
            told.append(
                (
                    f"{subject}: {ours} has {share:.2f} x the {field} of {bare}, "
                    f"{'at least' if least else 'at most'} {bound}",
                    share >= bound if least else share <= bound,
                )
            )
    return told


def main() -> None:
    parser = options("Requests a second and CPU a request beside other servers.", rounds=2)
    parser.add_argument("--only", default="", help="subjects with this in their name")
    parser.add_argument("--server", action="append", help="ours and these; default all")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headrace-wire-"))
    write_models(folder)
    with serving(folder, given.server) as (servers, skipped):
        by_name = {server.name: server for server in servers}
        figures = [
            figure
            for subject in subjects(servers)
            if given.only in subject.name
            for figure in measure(subject, by_name, given.rounds)
        ]
        versions = ", ".join(f"{server.name} {server.version}" for server in servers)
    shutil.rmtree(folder)  # of a run that fails the servers' logs stay
    held = limits(figures)
    notes = [versions, *skipped, *(f"{'holds' if ok else 'FAILS'}: {text}" for text, ok in held)]
    text = "\n".join([table(figures), "", *notes])
    print(text)
    if not given.only:
        keep("wire_throughput", text, {"notes": notes, "figures": [asdict(one) for one in figures]})
    if not all(ok for _, ok in held):
        sys.exit(1)


if __name__ == "__main__":
    main()
