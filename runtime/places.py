"""Which threads hold the places of an engine's workers: so many run requests at once.

A place is held by a worker that is at a job, or by a caller's thread that runs his own request in
the place of one. Whoever submits in a stage, or waits there for an answer, gives his place back for
the rest of that job: what he waits for may need it. Nothing here locks: whoever asks holds the lock
of the workers, unless it says otherwise.
"""

from enum import Enum, auto
from threading import get_ident


class State(Enum):
    """Of a thread: it has no place; holds one, in a stage or on the way to one; has given that
    back; or holds it and hands out answers, after which nothing is waited for."""

    RESTS = auto()
    WORKS = auto()
    AWAY = auto()
    ANSWERS = auto()


class Places:
    """`free` of them nobody holds; `lent` are held by threads of callers; `parked` workers wait for
    something to do. Of `away` threads the stage goes on without a place."""

    __slots__ = ("_states", "away", "count", "free", "lent", "parked")

    def __init__(self, count: int) -> None:
        self.count = self.free = count
        self.lent = self.away = self.parked = 0
        self._states: dict[int, State] = {}

    @property
    def empty(self) -> bool:
        """Whether nobody is at anything."""
        return self.free == self.count and not self.away

    @property
    def in_stage(self) -> bool:
        """Whether this thread is at a request; its own affair, so no lock is needed."""
        state = self._states.get(get_ident())
        return state is not None and state in (State.WORKS, State.AWAY)

    @property
    def answers(self) -> bool:
        """Whether this thread hands out answers; as above."""
        return self._states.get(get_ident()) is State.ANSWERS

    @property
    def held(self) -> bool:
        """Whether this thread holds a place that it may have to give; as above."""
        return self._states.get(get_ident()) is State.WORKS

    def take(self) -> bool:
        """Take a place for this worker, which is parked, or comes from a stage without one."""
        if self.free <= 0:
            return False
        self.free -= 1
        self._states[get_ident()] = State.WORKS
        return True

    def keep(self) -> bool:
        """Whether this worker, which has done a job, has a place for the next."""
        here = get_ident()
        if self._states[here] is not State.AWAY:
            self._states[here] = State.WORKS
            return True
        self.away -= 1
        self._states[here] = State.RESTS
        return self.take()

    def rest(self) -> None:
        """Give back the place of this worker, which finds nothing to do."""
        self.free += 1
        self._states[get_ident()] = State.RESTS

    def leave(self) -> None:
        """Forget this worker, which has no place and ends."""
        del self._states[get_ident()]

    def give(self) -> None:
        """Give back the place of this thread while its stage goes on."""
        self.free += 1
        self.away += 1
        self._states[get_ident()] = State.AWAY

    def answer(self) -> None:
        """Note that this thread hands out answers; its own affair, so no lock is needed."""
        here = get_ident()
        if self._states.get(here) is State.WORKS:
            self._states[here] = State.ANSWERS

    def lend(self) -> State | None:
        """Let this thread of a caller have a place, of which one is free; return what `give_back`
        is to be told."""
        here = get_ident()
        before = self._states.get(here)
        self.free -= 1
        self.lent += 1
        self._states[here] = State.WORKS
        return before

    def give_back(self, before: State | None) -> None:
        """Note that this thread of a caller has done what it had a place for."""
        here = get_ident()
        if self._states[here] is State.AWAY:
            self.away -= 1
        else:
            self.free += 1
        self.lent -= 1
        if before is None:
            del self._states[here]
        else:
            self._states[here] = before
