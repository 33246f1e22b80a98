"""Sends many mutated requests to a server and holds it to what it owes whoever sends sound ones.

    python -m tests.safety.million --requests 1000000

In pieces of a fiftieth: between them the server is asked for a right answer, and its process and
memory are looked at. It fails where the process is another, where a status from 500 is not one of
those listed here, or where memory grows by more than 5% after the first tenth.
"""

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import grpc
import grpc.aio

from tests.safety.corpus import entries, mutated
from tests.safety.hosted import MIB, Hosted, hosting

CAUSES: Final = {
    500: re.compile(rb"the marker is here|stage `wait`|stage `squares`|stage `boxes`"),
    501: re.compile(rb"not served|stream"),
    503: re.compile(rb"full|time was up|deadline|later|too many|on their way"),
    505: re.compile(rb""),
}
"""Why a server may answer so: what a stage does, what is not there, what was asked to be quick."""

GOOD_CODES: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
CALL: Final = "/inference.GRPCInferenceService/ModelInfer"


class Tally:
    """What was answered, and what should not have been."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.wrong: list[tuple[bytes, bytes]] = []

    def http(self, sent: bytes, answer: bytes) -> None:
        found = re.findall(rb"HTTP/1\.1 (\d\d\d)", answer)
        for one in found or (b"closed",):
            self.statuses[one.decode()] += 1
            if one[:1] == b"5":
                cause = CAUSES.get(int(one))
                if cause is None or not cause.search(answer):
                    self.wrong.append((sent, answer))

    def grpc(self, sent: bytes, code: grpc.StatusCode | None, details: str) -> None:
        self.statuses["OK" if code is None else code.name] += 1
        if code is not None and code not in GOOD_CODES:
            cause = CAUSES[500] if code is grpc.StatusCode.INTERNAL else CAUSES[503]
            if not cause.search(details.encode()):
                self.wrong.append((sent, f"{code.name} {details}".encode()))


async def ask_http(
    hosted: Hosted, entries_: list[bytes], seed: int, count: int, tally: Tally
) -> None:
    """Send on one connection for as long as the server keeps it; a caller of little patience."""
    random, connection = Random(seed), None
    host, _, port = hosted.http.rpartition(":")
    for _ in range(count):
        sent = mutated(random, random.choice(entries_), entries_)
        if connection is None:
            connection = await asyncio.open_connection(host, int(port), limit=1 << 20)
        reader, writer = connection
        answer = b""
        with suppress(OSError):
            writer.write(sent)
            answer = await answered(reader)
        tally.http(sent, answer)
        if not answer or b"connection: close" in answer or answer.count(b"HTTP/1.1 ") != 1:
            writer.close()
            connection = None
    if connection is not None:
        connection[1].close()


async def answered(reader: asyncio.StreamReader) -> bytes:
    """Return an answer, or nothing after a while: the server may wait for more."""
    try:
        async with asyncio.timeout(0.05):
            found = await reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(60):
            return found + await body(reader, found)
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return b""


async def body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    length = re.search(rb"content-length: (\d+)", head)
    if length is not None:
        return await reader.readexactly(int(length[1]))
    found = b""
    while not found.endswith(b"0\r\n\r\n") and (more := await reader.read(1 << 16)):
        found += more
    return found


async def ask_grpc(
    hosted: Hosted, entries_: list[bytes], seed: int, count: int, tally: Tally
) -> None:
    random = Random(seed)
    async with grpc.aio.insecure_channel(hosted.grpc) as channel:
        call = channel.unary_unary(CALL)
        for _ in range(count):
            sent = mutated(random, random.choice(entries_), entries_)
            try:
                await call(sent, timeout=30)
                tally.grpc(sent, None, "")
            except grpc.aio.AioRpcError as error:
                tally.grpc(sent, error.code(), error.details() or "")


async def piece(hosted: Hosted, seed: int, count: int, connections: int, tally: Tally) -> None:
    """Two thirds over HTTP, one over gRPC."""
    http, messages = entries("http"), entries("grpc")
    each = count // (3 * connections)
    async with asyncio.TaskGroup() as tasks:
        for number in range(connections):
            own = seed * 1000 + number
            tasks.create_task(ask_http(hosted, http, own, 2 * each, tally))
            tasks.create_task(ask_grpc(hosted, messages, own, each, tally))


def run(requests: int, connections: int, seed: int, pieces: int = 50) -> int:
    tally, sizes = Tally(), list[int]()
    with (
        tempfile.TemporaryDirectory() as folder,
        hosting(Path(folder), "--limit", "head=1", "--limit", "patience=1") as hosted,
    ):
        began = time.monotonic()
        for number in range(pieces):
            asyncio.run(piece(hosted, seed + number, requests // pieces, connections, tally))
            hosted.serves()
            sizes.append(hosted.forget_peak())
            done = sum(tally.statuses.values())
            print(
                f"{done} in {time.monotonic() - began:.0f} s, {sizes[-1] / MIB:.1f} MiB,"
                f" pid {hosted.process.pid}",
                flush=True,
            )
        print(dict(sorted(tally.statuses.items())))
        for sent, answer in tally.wrong[:20]:
            print("sent", sent[:2000], "answered", answer[:600], sep="\n")
        log = hosted.log.read_text()
    after, last = sizes[len(sizes) // 10], sizes[-1]
    print(f"memory {after / MIB:.1f} to {last / MIB:.1f} MiB; {len(tally.wrong)} wrong answers")
    bugs = log.count("a bug in headrace")
    if bugs:
        print(log[log.index("a bug in headrace") - 200 :][:5000])
    return int(bool(tally.wrong) or bool(bugs) or last > after * 1.05)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    return run(given.requests, given.connections, given.seed)


if __name__ == "__main__":
    sys.exit(main())
