"""The future that makes what waiting takes only for those who wait is a Future all the same."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from threading import Barrier
from typing import Any

import pytest

from headrace.runtime.pending import Pending
from headrace.runtime.request import Code, Fault
from headrace.runtime.task import Task
from tests.runtime.drivers import LONG, switching

Made = Pending[dict[str, Any]]
FAULT = Fault(Code.FAILED, "it fails")


class Nobody:
    """Answers nothing, and lets nobody run anything."""

    def drop(self, task: Task) -> bool:
        del task
        return False

    def wait(self, task: Task, timeout: float | None) -> None:
        del task, timeout

    def hurry(self) -> None:
        """Wakes nobody."""


def made() -> Made:
    return Pending(dict, Nobody())


async def awaited(future: Made) -> object:
    return await asyncio.wrap_future(future)


def called_back(future: Made) -> object:
    told: Future[object] = Future()
    future.add_done_callback(told.set_result)
    assert told.result(LONG) is future
    return future.result()


def as_it_comes(future: Future[dict[str, Any]]) -> object:
    return next(as_completed([future], LONG)).result()


WAITS: dict[str, Callable[[Made], object]] = {
    "result": lambda future: future.result(),
    "result in time": lambda future: future.result(LONG),
    "wait": lambda future: wait([future], LONG).done.pop().result(),
    "as_completed": as_it_comes,
    "asyncio": lambda future: asyncio.run(awaited(future)),
    "callback": called_back,
}


def test_it_has_all_that_a_future_has() -> None:
    """Whoever looks into futures, as `wait` does, finds what he looks for."""
    future: Made = made()
    plain: Future[object] = Future()
    for name, value in vars(plain).items():
        if name != "_condition":
            assert getattr(future, name) == value
    assert type(future._condition) is type(plain._condition)  # pyright: ignore[reportPrivateUsage]
    assert future._condition is future._condition  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("way", WAITS)
def test_an_answer_is_there_for_who_comes_later(way: str) -> None:
    future, failed = made(), made()
    future.give({"y": "1"})
    failed.fail(FAULT)
    assert future.done()
    assert future.exception() is None
    assert WAITS[way](future) == {"y": "1"}
    with pytest.raises(Fault, match="it fails"):
        WAITS[way](failed)
    assert not future.cancel()
    assert not future.cancelled()
    assert "finished" in repr(future)


def test_who_waits_hears_of_it_whoever_comes_first() -> None:
    with switching(), ThreadPoolExecutor(len(WAITS) + 1) as pool:
        for turn in range(60):
            future, barrier = made(), Barrier(len(WAITS) + 1)

            def ask(way: str, future: Made = future, barrier: Barrier = barrier) -> object:
                barrier.wait(LONG)
                return WAITS[way](future)

            told = [pool.submit(ask, way) for way in WAITS]
            barrier.wait(LONG)
            future.give({"y": str(turn)})
            assert [one.result(LONG) for one in told] == [{"y": str(turn)}] * len(WAITS)


def test_who_is_to_be_told_is_told_once_in_turn_whatever_becomes_of_it() -> None:
    ends: dict[str, Callable[[Made], object]] = {
        "answered": lambda future: future.give({"y": "1"}),
        "failed": lambda future: future.fail(FAULT),
        "taken back": lambda future: future.take_back(),
    }
    for name, end in ends.items():
        future, heard = made(), list[tuple[str, bool]]()

        def fails(future: Future[Any]) -> None:
            raise RuntimeError(f"of {future}")

        def hear(future: Future[Any], heard: list[tuple[str, bool]] = heard) -> None:
            heard.append(("same", future.done()))

        for callback in (fails, hear, hear):
            future.add_done_callback(callback)
        future.add_done_callback(lambda future, heard=heard: heard.append(("b", future.done())))
        assert heard == []
        end(future)
        assert heard == [("same", True), ("same", True), ("b", True)], name
        future.add_done_callback(hear)
        future.add_done_callback(hear)
        assert heard[3:] == [("same", True)] * 2, name


@pytest.mark.parametrize("waits", [False, True])
def test_who_wants_to_be_told_while_it_is_answered_is_told_once(waits: bool) -> None:
    with switching(), ThreadPoolExecutor(3) as pool:
        for turn in range(200):
            future, barrier, heard = made(), Barrier(3), list[str]()

            def ask(
                name: str,
                future: Made = future,
                barrier: Barrier = barrier,
                heard: list[str] = heard,
            ) -> None:
                barrier.wait(LONG)
                future.add_done_callback(lambda _: heard.append(name))
                if waits:
                    future.result(LONG)

            asking = [pool.submit(ask, name) for name in "ab"]
            barrier.wait(LONG)
            future.give({"y": str(turn)})
            for one in asking:
                one.result(LONG)
            assert sorted(heard) == ["a", "b"]


def test_who_waits_for_several_waits_for_all_of_them() -> None:
    with switching(), ThreadPoolExecutor(1) as pool:
        for turn in range(200):
            futures, barrier = [made() for _ in range(4)], Barrier(2)

            def give(futures: list[Made] = futures, barrier: Barrier = barrier) -> None:
                barrier.wait(LONG)
                for one in futures:
                    one.give({"y": str(turn)})  # noqa: B023 it is done before the next turn

            giving = pool.submit(give)
            barrier.wait(LONG)
            assert wait(futures, LONG).not_done == set()
            assert [one.done() for one in futures] == [True] * 4
            giving.result(LONG)
