"""Several ask one pool, and each ends what it has asked itself."""

import threading
from pathlib import Path

import pytest

from headrace.runtime.isolation.lease import Lease
from headrace.runtime.isolation.pool import Pool
from headrace.runtime.request import Code
from headrace.runtime.stage import StageGone
from tests.runtime.drivers import LONG

from .programs import pipe, pool, told

pytestmark = pytest.mark.slow


class Asking(threading.Thread):
    """Asks in a thread of its own."""

    def __init__(self, lease: Lease, argument: object) -> None:
        super().__init__(daemon=True)
        self._lease, self._argument = lease, argument
        self.found: object = None
        self.start()

    def run(self) -> None:
        try:
            self.found = self._lease(self._argument)
        except StageGone as gone:
            self.found = gone

    def over(self) -> object:
        self.join(LONG)
        assert not self.is_alive()
        return self.found


def leases(workers: Pool) -> tuple[Lease, Lease]:
    return Lease(workers), Lease(workers, first=False)


def test_who_has_closed_a_lease_asks_no_more_and_the_others_do() -> None:
    with pool("number") as number:
        one, other = leases(number)
        assert one(0) == other(0)
        one.close()
        with pytest.raises(StageGone, match="the engine was closed"):
            one(0)
        assert other(0) == number(0)
        assert other.is_up


def test_a_call_that_does_not_end_is_killed_with_its_worker_and_another_is_started(
    tmp_path: Path,
) -> None:
    with pool("held", count=2) as held:
        one, other = leases(held)
        first, second = pipe(tmp_path, "first"), pipe(tmp_path, "second")
        hangs, goes_on = Asking(one, first), Asking(other, second)
        killed, kept = told(first), told(second)
        assert killed != kept
        one.close(0.0)
        gone = hangs.over()
        assert isinstance(gone, StageGone)
        assert goes_on.is_alive()
        again = pipe(tmp_path, "again")
        asks = Asking(other, again)
        assert told(again) not in (killed, kept)
        other.close(0.0)
        assert isinstance(goes_on.over(), StageGone)
        assert isinstance(asks.over(), StageGone)


def test_who_waits_for_a_worker_waits_no_more_when_his_lease_is_closed(tmp_path: Path) -> None:
    with pool("held") as held:
        one, other = leases(held)
        path = pipe(tmp_path)
        hangs = Asking(other, path)
        told(path)
        waits = Asking(one, "never opened")
        one.close(LONG)
        gone = waits.over()
        assert isinstance(gone, StageGone)
        assert gone.code is Code.UNAVAILABLE
        assert hangs.is_alive()
        other.close(0.0)


def test_only_the_first_lease_rehearses_and_only_in_its_own_thread() -> None:
    with pool("number") as number:
        one, other = leases(number)
        other.rehearses = True
        assert not number.rehearses
        one.rehearses = True
        assert one.rehearses
        found: list[bool] = []
        thread = threading.Thread(target=lambda: found.append(number.rehearses))
        thread.start()
        thread.join(LONG)
        assert found == [False]
        one.rehearses = False
        assert not number.rehearses
