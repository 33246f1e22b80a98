"""The threads in which a client waits for what was submitted."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from ..runtime.record import Record
from .calls import Promise, closed
from .wire import Cancellation


class Threads:
    """Started as they are needed, `most` of them."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="headrace-client")

    def submit(self, make: Callable[[Cancellation], Record]) -> "Promise[Record]":
        """Return the future of what `make` gives."""
        promise = Promise[Record]()
        self.start(lambda: promise.keep(lambda: make(promise.cancellation)))
        return promise

    def start(self, work: Callable[[], object]) -> None:
        """Let a thread do it; raises Fault when the client is closed."""
        try:
            self._pool.submit(work)
        except RuntimeError:
            raise closed() from None

    async def read(
        self, records: Iterator[Record], cancellation: Cancellation
    ) -> AsyncGenerator[Record]:
        """Give what a stream gives, each record read in a thread."""
        loop = asyncio.get_running_loop()
        try:
            while (
                record := await loop.run_in_executor(self._pool, next, records, None)
            ) is not None:
                yield record
        finally:
            cancellation.cancel()

    def close(self) -> None:
        """Take no more, and wait for what is under way."""
        self._pool.shutdown()
