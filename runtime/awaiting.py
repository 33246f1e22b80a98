"""Where a Future of the engine's threads meets an event loop."""

import asyncio
from concurrent.futures import Future
from typing import Any


async def wait_until_done(future: Future[Any]) -> None:  # Any: of whatever
    """Return when the future is done, whatever came of it; cancelling this cancels the future."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not done.done():
            done.set_result(None)

    future.add_done_callback(lambda _: loop.call_soon_threadsafe(wake))
    try:
        await done
    except asyncio.CancelledError:
        future.cancel()
        raise
