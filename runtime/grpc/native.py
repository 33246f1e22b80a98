"""The carrier on pygrpc-native: HTTP/2 in threads outside the interpreter's lock.

One thread takes all calls that are there. A cheap pipeline runs right there; for the others the
thread that finishes the request also sends the answer. What is not for this carrier (streams,
methods that ask for headers, paths it does not know) goes to a grpcio server behind a Unix socket,
on the same port.
"""

import logging
import threading
from concurrent.futures import Future
from typing import Any

from pygrpc_native import EVENT_CANCEL, NativeGrpcFront

from ..rounds import Rounds
from ..server_config import ServerConfig
from .call import NO_HEADERS, CallError, Methods, Pending
from .status import Status

_LOG = logging.getLogger(__name__)
_TAKEN = 64  # calls at a time at most
_ANSWERED = 8
"""Calls that are answered together: each answer on its own wakes the threads of HTTP/2, which takes
a tenth of a tiny request. The first waits until the last has run."""

_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}


class NativeCarrier:
    """Serves from construction until `close`."""

    def __init__(
        self, address: str, methods: Methods, fallback: str, config: ServerConfig, rounds: Rounds
    ) -> None:
        """Bind `address` (host:port, port 0 for any). `fallback` is the grpcio server's socket. A
        message that is larger than the limit is refused once it is there. What is taken together
        is a round of `rounds`."""
        unary = methods.unary
        paths = [path for path in unary if path not in methods.with_headers]
        self._handlers = [unary[path] for path in paths]
        self._limit, self._rounds = config.limits.body, rounds
        self._futures: dict[int, Future[Any]] = {}  # Any: as in Pending
        self._front = NativeGrpcFront(
            address,
            [(path, False) for path in paths],
            io_threads=config.grpc_io_threads,
            client_key_metadata="grpc-timeout",  # comes with each call, see _seconds
            call_details=True,  # or cancellation of unary calls is not told
            max_concurrent_streams=config.callers.streams,
            max_metadata_size=config.callers.metadata,
            keepalive_time_ms=int(config.callers.patience * 1000),
            keepalive_timeout_ms=int(config.callers.patience * 1000),
        )
        self._front.set_fallback(fallback)
        self._thread = threading.Thread(target=self._serve, name="headrace-grpc", daemon=True)
        self._front.start()
        self._thread.start()

    @property
    def port(self) -> int:
        return self._front.bound_port

    def close(self) -> None:
        """Take no more calls and drop those that are not answered."""
        self._front.close()
        self._thread.join()

    def _serve(self) -> None:
        front, handlers, limit = self._front, self._handlers, self._limit
        self._rounds.attend()
        answers: list[tuple[int, bytes]] = []
        while (events := front.recv_batch(_TAKEN)) is not None:
            for kind, call_id, method, payload, timeout in events:
                if kind == EVENT_CANCEL or payload is None:
                    self._cancel(call_id)
                    continue
                if len(payload) > limit:
                    front.fail(call_id, Status.RESOURCE_EXHAUSTED, _too_large(payload, limit))
                    continue
                try:
                    answer = handlers[method](payload, _seconds(timeout), NO_HEADERS)
                except CallError as error:
                    front.fail(call_id, error.status, error.message, error.trailers)
                except Exception:
                    self._fail_unforeseen(call_id)
                else:
                    if isinstance(answer, bytes):
                        answers.append((call_id, answer))
                        if len(answers) == _ANSWERED:
                            self._respond(answers)
                    else:
                        self._wait(call_id, answer)
            self._rounds.end()
            self._respond(answers)

    def _respond(self, answers: list[tuple[int, bytes]]) -> None:
        for call_id, answer in answers:
            self._front.respond(call_id, answer)
        answers.clear()

    def _wait(self, call_id: int, pending: Pending) -> None:
        self._futures[call_id] = pending.future

        def answer(future: Future[Any]) -> None:  # Any: as in Pending
            self._futures.pop(call_id, None)
            try:
                self._front.respond(call_id, pending.finish(future))
            except CallError as error:
                self._front.fail(call_id, error.status, error.message, error.trailers)
            except Exception:
                self._fail_unforeseen(call_id)

        pending.future.add_done_callback(answer)

    def _cancel(self, call_id: int) -> None:
        future = self._futures.pop(call_id, None)
        if future is not None:
            future.cancel()

    def _fail_unforeseen(self, call_id: int) -> None:
        _LOG.exception("a bug in headrace")
        self._front.fail(call_id, Status.INTERNAL, "internal error in headrace; its log has more")


def _too_large(payload: bytes, limit: int) -> str:
    return f"the message has {len(payload)} bytes, the limit is {limit}"


def _seconds(timeout: bytes | str | None) -> float | None:
    """Read the header grpc-timeout (`100m`: at most 8 digits and a unit).

    It comes as bytes; without it the carrier gives the peer's address, as a string. The carrier
    itself ends calls that are late, so a malformed one needs no error here.
    """
    if not isinstance(timeout, bytes) or not timeout[:-1].isdigit():
        return None
    unit = _UNITS.get(timeout[-1:])
    return None if unit is None else int(timeout[:-1]) * unit
