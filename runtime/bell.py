"""Whether a request that comes needs a worker to be woken.

A thread that asks for one thing after the other, and comes for each result, runs its requests
itself (`Workers.lend`). A worker that is woken for them finds nothing to do, and costs that thread
as much as all the rest of the hop. So once a few requests in a row went that way, and no other is
under way, nobody is woken: one idle worker *watches*. It looks from time to time whether there is a
request for which the bell did not ring and which nobody has begun for a period, and serves that as
any other; the thread that did not come then has the bell rung for it again. The bell rings late,
but at once, for who is seen to wait in another way (`Pending`), and whenever a worker is woken for
something else. When nobody has asked for a while the worker sleeps until it is woken.

Nothing here locks or waits: whoever asks holds the lock of the workers, unless it says otherwise.
"""

from threading import get_ident
from typing import Final

COMES: Final = 4
"""So many requests in a row that a thread has asked for it has run itself, before it is expected
to come for the next."""
PERIOD: Final = 1e-3
SILENCE: Final = 0.05


class Bell:
    """`period` is for how many seconds a request may wait for its caller; who watches stops when
    nobody was expected for `silence` seconds."""

    __slots__ = ("_due", "_period", "_silence", "_until", "_watcher")

    def __init__(self, period: float = PERIOD, silence: float = SILENCE) -> None:
        self._period, self._silence = period, silence
        self._due: float | None = None
        self._until = 0.0
        self._watcher: int | None = None

    @property
    def owed(self) -> bool:
        """Whether it did not ring for a request that nobody has begun. It may be asked without the
        lock by whoever has the future of that."""
        return self._due is not None

    def is_needless(self, now: float) -> bool:
        """Whether it need not ring for a request whose caller is expected, and no other is under
        way: somebody watches. Else the worker that is woken watches, once it has nothing to do."""
        self._until = now + self._silence
        if self._watcher is None:
            return False
        self._due = now + self._period
        return True

    def ring(self) -> None:
        """Note that it rings: whoever watched had better look what there is."""
        self._due = self._watcher = None

    def begin(self) -> None:
        """Note that a request is begun, before which there was no other."""
        self._due = None

    def watch(self, now: float) -> bool:
        """Whether this thread, which has nothing to do, is to watch."""
        if self._watcher is not None or now >= self._until:
            return False
        self._watcher = get_ident()
        return True

    def next_look(self, now: float) -> float | None:
        """Return when this thread, which watches, is to look again; None when it is to look what
        there is to do, and watches no more."""
        if self._watcher != get_ident():
            return None
        if self._due is not None and self._due > now:
            return self._due
        if self._due is None and now < self._until:
            return now + self._period
        self._due = self._watcher = None
        return None
