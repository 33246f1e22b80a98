"""Where an event loop meets the engine: Futures of its threads, and what runs in the loop's."""

import asyncio
from concurrent.futures import Future
from typing import Any


def leave_loop() -> asyncio.AbstractEventLoop | None:
    """Let what is called in the thread of an event loop run one of its own, as it may in any other
    thread: a function in Python cannot know where it is called. Return the loop (None: there is
    none), which is to be `return_to`."""
    loop = asyncio._get_running_loop()
    if loop is not None:
        asyncio._set_running_loop(None)
    return loop


def return_to(loop: asyncio.AbstractEventLoop | None) -> None:
    """Be in an event loop again that was left."""
    if loop is not None:
        asyncio._set_running_loop(loop)


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
