"""The carrier on grpcio: TLS, streams in both directions, and everything where the other is not.

Runs on the event loop that starts it; a cheap pipeline runs there too.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import grpc.aio

from ..awaiting import wait_until_done
from ..request import Fault
from ..server_config import ServerConfig
from ..streams import Stream
from ..tls import Tls
from .call import (
    NO_HEADERS,
    CallError,
    Headers,
    Method,
    Methods,
    Pending,
    Responses,
    StreamMethod,
    Watched,
    WatchMethod,
)
from .status import Status
from .unread import Unread

_LOG = logging.getLogger(__name__)
_STATUS = {code.value[0]: code for code in grpc.StatusCode}
_LOOK_AGAIN = 1.0
"""Seconds after which what is watched is looked at though nobody told of a change: that a worker
process is down nobody tells."""

_IN_FLIGHT = 64  # answers of one stream that may be waited for at a time


class AioCarrier:
    """A grpcio server; `start` and `stop` belong to one event loop."""

    def __init__(self, address: str, methods: Methods, config: ServerConfig) -> None:
        """Bind `address` (host:port or unix:path; the latter without TLS).

        Raises OSError when the address is taken.
        """
        callers = config.callers
        tls = None if address.startswith("unix:") else config.tls
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", config.limits.body),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", int(config.process is not None)),
                ("grpc.max_concurrent_streams", callers.streams),
                ("grpc.max_metadata_size", callers.metadata),
                ("grpc.absolute_max_metadata_size", callers.metadata),
                ("grpc.max_allowed_incoming_connections", callers.connections),
                ("grpc.max_connection_idle_ms", int(callers.idle * 1000)),
                ("grpc.keepalive_time_ms", int(callers.patience * 1000)),
                ("grpc.keepalive_timeout_ms", int(callers.patience * 1000)),
                ("grpc.server_handshake_timeout_ms", int(callers.head * 1000)),
            ]
        )
        self._ending = asyncio.Event()
        unread = Unread(callers.unread)
        self._server.add_generic_rpc_handlers((_Handlers(methods, self._ending, unread),))
        try:
            if tls is None:
                self.port = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, _credentials(tls))
        except RuntimeError as error:
            raise OSError(f"cannot bind {address}") from error

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, grace: float) -> None:
        """Take no more calls, and cancel those that are not done after `grace` seconds.

        Streams end when what they were asked has been answered.
        """
        self._ending.set()
        await self._server.stop(grace)


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    return grpc.ssl_server_credentials(
        [(tls.key, tls.certificate)],
        root_certificates=tls.client_authority,
        require_client_auth=tls.client_authority is not None,
    )


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, methods: Methods, ending: asyncio.Event, unread: Unread) -> None:
        # Without (de)serialisers grpcio hands over bytes.
        self._handlers: dict[str, Any] = {  # Any: grpcio's stubs do not say
            path: grpc.unary_unary_rpc_method_handler(
                _unary(method, path in methods.with_headers, unread)
            )
            for path, method in methods.unary.items()
        }
        for path, method in methods.watches.items():
            self._handlers[path] = grpc.unary_stream_rpc_method_handler(_watch(method, ending))
        for path, method in methods.streams.items():
            self._handlers[path] = grpc.stream_stream_rpc_method_handler(
                _stream(method, ending, unread)
            )

    # Any: as grpcio's stubs
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._handlers.get(handler_call_details.method)


def _unary(method: Method, with_headers: bool, unread: Unread) -> Any:  # Any: as grpcio's stubs
    async def call(payload: bytes, context: Any) -> bytes:  # Any: likewise
        try:
            headers = _headers(context) if with_headers else NO_HEADERS
            answer = method(payload, context.time_remaining(), headers)
            done = answer if isinstance(answer, bytes) else await _finished(answer)
            unread.hold(context, len(done))
            return done
        except Exception as error:
            await _abort(context, error)
        raise AssertionError("abort raises")

    return call


def _headers(context: Any) -> Headers:  # Any: as grpcio's stubs
    """Return the texts that came with a call; what is binary no method asks for."""
    return {
        key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)
    }


async def _abort(context: Any, error: Exception) -> None:  # Any: as grpcio's stubs
    """End a call with the status of what went wrong. Raises."""
    if isinstance(error, CallError):
        await context.abort(_STATUS[error.status], error.message, tuple(error.trailers))
    _LOG.error("a bug in headrace", exc_info=error)
    await context.abort(_STATUS[Status.INTERNAL], "internal error in headrace; its log has more")


async def _finished(pending: Pending) -> bytes:
    await wait_until_done(pending.future)
    return pending.finish(pending.future)


Write: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends a message; returns when the caller has room for the next."""


class _Opened:
    """Responses under way: writes them as they come, those of one request one after the other."""

    def __init__(self, responses: Responses) -> None:
        loop, self._ready = asyncio.get_running_loop(), asyncio.Event()
        self._end = responses.end
        self._stream: Stream[bytes] | None = None
        self._failed: Exception | None = None
        try:
            self._stream = responses.open(lambda: loop.call_soon_threadsafe(self._ready.set))
        except Exception as error:
            self._failed = error  # `end` puts it into words

    async def write(self, write: Write) -> None:
        try:
            await self._write_all(write)
        finally:
            self.cancel()
        if (last := self._end(self._failed)) is not None:
            await write(last)

    async def _write_all(self, write: Write) -> None:
        while self._stream is not None:
            for response in self._stream.take():
                await write(response)
            try:
                if self._stream.over:
                    return
            except Fault as fault:
                self._failed = fault
                return
            await self._ready.wait()
            self._ready.clear()

    def cancel(self) -> None:
        if self._stream is not None:
            self._stream.cancel()


def _stream(
    method: StreamMethod, ending: asyncio.Event, unread: Unread
) -> Any:  # Any: as grpcio's stubs
    async def call(requests: AsyncIterator[bytes], context: Any) -> None:  # Any: likewise
        headers, refused = _headers(context), None
        answers: asyncio.Queue[bytes | Pending | _Opened | None] = asyncio.Queue(_IN_FLIGHT)

        async def read() -> None:
            async for payload in requests:
                answer = method(payload, context.time_remaining(), headers)
                await answers.put(_Opened(answer) if isinstance(answer, Responses) else answer)
            await answers.put(None)

        async def write(message: bytes) -> None:
            unread.hold(context, len(message))
            await context.write(message)
            unread.read()

        async def read_no_more(reading: asyncio.Task[None]) -> None:
            await ending.wait()
            reading.cancel()
            await answers.put(None)

        try:
            async with asyncio.TaskGroup() as tasks:
                ender = tasks.create_task(read_no_more(tasks.create_task(read())))
                while (answer := await answers.get()) is not None:
                    if isinstance(answer, _Opened):
                        await answer.write(write)
                        continue
                    await write(answer if isinstance(answer, bytes) else await _finished(answer))
                ender.cancel()
        except* CallError as group:
            refused = group.exceptions[0]
        finally:
            _cancel_all(answers)
        if refused is not None:
            await _abort(context, refused)

    return call


def _watch(method: WatchMethod, ending: asyncio.Event) -> Any:  # Any: as grpcio's stubs
    async def call(payload: bytes, context: Any) -> None:  # Any: likewise
        try:
            watched = method(payload)
        except Exception as error:
            await _abort(context, error)
            return
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        end = watched.watch(lambda: loop.call_soon_threadsafe(changed.set))
        ended = asyncio.create_task(ending.wait())
        try:
            told = None
            while not ending.is_set():
                changed.clear()
                if (now := await _read(watched)) != told:
                    told = now
                    await context.write(told)
                waiting = asyncio.create_task(changed.wait())
                await asyncio.wait(
                    (waiting, ended), timeout=_LOOK_AGAIN, return_when=asyncio.FIRST_COMPLETED
                )
                waiting.cancel()
            if (now := await _read(watched)) != told:
                await context.write(now)
        finally:
            end()
            ended.cancel()

    return call


async def _read(watched: Watched) -> bytes:
    now = watched.read()
    return now if isinstance(now, bytes) else await _finished(now)


def _cancel_all(answers: "asyncio.Queue[bytes | Pending | _Opened | None]") -> None:
    while not answers.empty():
        answer = answers.get_nowait()
        if isinstance(answer, Pending):
            answer.future.cancel()
        elif isinstance(answer, _Opened):
            answer.cancel()
