"""Stock Triton clients of every kind, called alike: HTTP, gRPC, and both with asyncio."""

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio

from headrace.runtime.server import Server

KINDS = ("http", "grpc", "http.aio", "grpc.aio")

_MODULES: dict[str, Any] = {  # Any: untyped modules
    "http": tritonclient.http,
    "grpc": tritonclient.grpc,
    "http.aio": tritonclient.http.aio,
    "grpc.aio": tritonclient.grpc.aio,
}


class Stock:
    """A client. Its methods are called here as those of the client, whether it has asyncio or
    not; `as_json` is asked of gRPC."""

    def __init__(self, kind: str, client: Any, runner: asyncio.Runner | None) -> None:
        self.kind, self.module = kind, _MODULES[kind]
        self._client, self._runner = client, runner

    @property
    def is_http(self) -> bool:
        return self.kind.startswith("http")

    def __getattr__(self, name: str) -> Any:  # Any: whatever the client answers
        method = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if not self.is_http and name.startswith("get_"):
                options["as_json"] = True
            if self._runner is None:
                return method(*arguments, **options)

            async def run() -> Any:
                return await method(*arguments, **options)

            return self._runner.run(run())

        return call

    def tensor(self, name: str, datatype: str, array: np.ndarray, **options: Any) -> Any:
        made = self.module.InferInput(name, list(array.shape), datatype)
        made.set_data_from_numpy(array, **options)
        return made

    def place(self, name: str, shape: list[int], datatype: str) -> Any:
        """An input without its values."""
        return self.module.InferInput(name, shape, datatype)

    def wanted(self, name: str, **options: Any) -> Any:
        return self.module.InferRequestedOutput(name, **options)


@contextmanager
def stock(kind: str, server: Server) -> Generator[Stock, None, None]:
    """A client of a server."""
    address = server.addresses.http if kind.startswith("http") else server.addresses.grpc
    module = _MODULES[kind]
    with ExitStack() as opened:
        if not kind.endswith("aio"):
            yield Stock(kind, opened.enter_context(module.InferenceServerClient(address)), None)
            return
        runner = opened.enter_context(asyncio.Runner())

        async def make() -> Any:
            return module.InferenceServerClient(address)

        client = runner.run(make())

        def close() -> None:
            async def run() -> None:
                closed: Awaitable[None] = client.close()
                await closed

            runner.run(run())

        opened.callback(close)
        yield Stock(kind, client, runner)
