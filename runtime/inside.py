"""Who is inside an engine, so that it drains exactly: who is let in is counted here or known to the
workers.

A thread that calls writes a number of its own before it looks whether the engine is closed. The
reader of a stream is inside from the first response that it asks for to the last, for nothing runs
in between but when it asks; one who may never come back can be waited for no more.
"""

import threading

from .crew import Crew
from .inline import Emitted
from .metrics import Metrics, Tally
from .request import EngineClosed
from .streams import unread


class Inside:
    """`closed` says that nobody else is let in, `ended` that readers of streams are not waited
    for. What is asked for amid a request is let in all the same, for that is to be answered, be it
    here or at one of those `beside`: engines of the same plan, which drain together."""

    def __init__(self, metrics: Metrics, crew: Crew) -> None:
        self.closed = self.ended = False
        self.beside: tuple[Inside, ...] = ()
        self._metrics, self._crew = metrics, crew
        self._left = threading.Condition()
        self._streams: dict[object, int] = {}  # read in their callers' threads: which
        self._unread: dict[object, Emitted] = {}  # of them those whose readers ask for nothing

    def enter(self) -> Tally:
        """Let a request in; raises EngineClosed. `leave` must follow, in the same thread."""
        tally = self._metrics.tally()
        tally.inside += 1  # before it looks, so that `drain` sees it
        if self.closed and not self.is_amid(tally.inside - 1):
            self.leave(tally)
            raise EngineClosed
        return tally

    def is_amid(self, inside: int) -> bool:
        """Whether this thread is in the middle of a request, being `inside` so many calls here.

        Who hands out an answer, and is called back by whoever has it, is not any more.
        """
        return self._is_amid(inside) or any(
            other._is_amid(other._metrics.tally().inside) for other in self.beside
        )

    def _is_amid(self, inside: int) -> bool:
        workers = self._crew.workers
        if workers is not None and workers.in_stage:
            return True
        if inside > 0:
            return workers is None or not workers.answers
        here = threading.get_ident()
        with self._left:
            return any(at == here and one not in self._unread for one, at in self._streams.items())

    def leave(self, tally: Tally) -> None:
        tally.inside -= 1
        if self.closed:
            self.tell_left()

    def tell_left(self) -> None:
        """Let who waits for those inside look again."""
        with self._left:
            self._left.notify_all()

    def _count(self) -> int:
        """Return how many are in a method of the engine; none comes in once that is closed."""
        here = threading.get_ident()  # it is in here, so it cannot be reading a stream as well
        read = sum(thread != here for thread in self._streams.values())
        return read + self._metrics.inside()

    def wait(self, timeout: float | None) -> bool:
        """Wait until nobody is inside; False when `timeout` seconds were not enough."""
        with self._left:
            return self._left.wait_for(lambda: self._count() == 0, timeout)

    def begin_reading(self, stream: object) -> bool:
        """Let the reader of a stream in; raises EngineClosed. Return whether the rest must follow,
        up to `end_reading`: who reads amid a request is waited for with that."""
        if self.is_amid(self._metrics.tally().inside):
            return False
        with self._left:
            if self.closed:
                raise EngineClosed
            self._streams[stream] = threading.get_ident()
        return True

    def end_reading(self, stream: object) -> None:
        """Let the reader of a stream out, who has come to its end or wants no more."""
        with self._left:
            left = self._unread.pop(stream, None)
        if left is not None:
            left.close()
        with self._left:
            self._streams.pop(stream, None)
            self._left.notify_all()

    def hand_out(self, stream: object, emitted: Emitted) -> None:
        """Note that nothing of a stream runs until its reader asks for more."""
        with self._left:
            if not self.ended:
                self._unread[stream] = emitted
                return
        emitted.close()
        raise unread()

    def read_on(self, stream: object) -> None:
        """Note that more of it is asked for; raises Fault when it is waited for no more."""
        with self._left:
            if self._unread.pop(stream, None) is None:
                raise unread()

    def end_streams(self) -> None:
        """Wait no more for the readers of streams, who may never come back: whoever does finds the
        stream ended, and nobody waits for its turn in a sequence."""
        with self._left:
            self.ended = True
            left, self._unread = self._unread, {}
            for stream in left:
                del self._streams[stream]
        for emitted in left.values():
            emitted.close()
        self.tell_left()
