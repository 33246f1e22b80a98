"""The carrier on pygrpc-native: HTTP/2 in threads outside the interpreter's lock.

One thread takes calls in batches. A cheap pipeline runs right there; for the others the thread
that finishes the request also sends the answer. What this carrier cannot do (streams in both
directions, paths it does not know) goes to a grpcio server behind a Unix socket, on the same port.
"""

import logging
import threading
from concurrent.futures import Future

from pygrpc_native import EVENT_CANCEL, NativeGrpcFront

from ..request import Response
from .call import CallError, Methods, Pending
from .status import Status

_LOG = logging.getLogger(__name__)
_AT_ONCE = 64


class NativeCarrier:
    """Serves from construction until `close`."""

    def __init__(self, address: str, methods: Methods, io_threads: int, fallback: str) -> None:
        """Bind `address` (host:port, port 0 for any). `fallback` is the grpcio server's socket."""
        paths = list(methods.unary)
        self._handlers = list(methods.unary.values())
        self._futures: dict[int, Future[Response]] = {}
        self._front = NativeGrpcFront(
            address, [(path, False) for path in paths], io_threads=io_threads, call_details=True
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
        receive, cancel = self._front.recv_batch_details, EVENT_CANCEL
        while (events := receive(_AT_ONCE)) is not None:
            for kind, call_id, method, payload, _, details in events:
                if kind == cancel:
                    self._cancel(call_id)
                elif payload is not None:
                    self._call(call_id, method, payload, details[2] if details else None)

    def _call(self, call_id: int, method: int, payload: bytes, remaining: float | None) -> None:
        try:
            answer = self._handlers[method](payload, remaining)
        except CallError as error:
            self._front.fail(call_id, error.status, error.message)
        except Exception:
            self._fail_unforeseen(call_id)
        else:
            if isinstance(answer, bytes):
                self._front.respond(call_id, answer)
            else:
                self._wait(call_id, answer)

    def _wait(self, call_id: int, pending: Pending) -> None:
        self._futures[call_id] = pending.future

        def answer(future: Future[Response]) -> None:
            self._futures.pop(call_id, None)
            try:
                self._front.respond(call_id, pending.finish(future))
            except CallError as error:
                self._front.fail(call_id, error.status, error.message)
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
