"""What is sent again, when, and how often: decisions alone, with a clock and chance of our own."""

import threading
from collections.abc import Sequence
from contextlib import suppress

import pytest

from headrace.client.calls import attempted
from headrace.client.retry import NEVER, Budget, Counts, Retries, Timing
from headrace.client.wire import Cancellation, Failed
from headrace.runtime.request import Code, Fault

Script = Sequence[Failed | str]


def refused(retry_after: float | None = None) -> Failed:
    return Failed(Fault(Code.OVERLOADED, "full", retry_after=retry_after), untouched=True)


def broken() -> Failed:
    return Failed(Fault(Code.UNAVAILABLE, "it may have run"))


class Story:
    """A server that does as it is told, and a clock that only waits move."""

    def __init__(self, script: Script, drawn: float = 1.0) -> None:
        self.now, self.waits, self.left = 100.0, list[float](), list[float | None]()
        self._script, self._drawn = list(script), drawn
        self.cancel_at: int | None = None
        self.cancellation = Cancellation()

    def attempt(self, left: float | None) -> str:
        self.left.append(left)
        told = self._script.pop(0)
        if isinstance(told, Failed):
            raise told
        return told

    def wait(self, event: threading.Event, seconds: float) -> None:
        assert event is self.cancellation.asked
        self.waits.append(seconds)
        self.now += seconds
        if len(self.waits) == self.cancel_at:
            self.cancellation.cancel()

    def run(self, budget: Budget, due: float | None = None) -> str:
        timing = Timing(lambda: self.now, self.wait, lambda: self._drawn)
        return attempted(self.attempt, "here", budget, timing, due, self.cancellation)


def test_what_was_not_begun_is_sent_again_after_waits_that_grow() -> None:
    budget = Budget(Retries(attempts=6, first=0.1, growth=2, longest=0.5, tokens=100))
    story = Story([*(refused() for _ in range(5)), "answer"])
    assert story.run(budget) == "answer"
    assert story.waits == pytest.approx([0.1, 0.2, 0.4, 0.5, 0.5])
    assert budget.counts == Counts(requests=1, retries=5)


@pytest.mark.parametrize("drawn", [0.0, 0.25])
def test_waits_are_drawn_from_nothing_to_the_whole(drawn: float) -> None:
    story = Story([refused(), refused(), "answer"], drawn)
    story.run(Budget(Retries(first=1, longest=10)))
    assert story.waits == [drawn, 2 * drawn]


def test_what_the_server_asks_for_is_waited_for_besides() -> None:
    story = Story([refused(retry_after=3.0), "answer"], drawn=0.5)
    story.run(Budget(Retries(first=1)))
    assert story.waits == [3.5]


def test_what_may_have_run_is_never_sent_again() -> None:
    budget, story = Budget(Retries()), Story([broken()])
    with pytest.raises(Fault, match="it may have run"):
        story.run(budget)
    assert (story.waits, budget.counts) == ([], Counts(requests=1))


def test_attempts_come_to_an_end_and_the_last_fault_is_told() -> None:
    budget, story = Budget(Retries(attempts=3)), Story([refused(), refused(), refused()])
    with pytest.raises(Fault, match="full"):
        story.run(budget)
    assert budget.counts == Counts(requests=1, retries=2)
    budget, story = Budget(NEVER), Story([refused()])
    with pytest.raises(Fault, match="full"):
        story.run(budget)
    assert budget.counts == Counts(requests=1)


def test_nothing_is_sent_when_its_time_would_be_up() -> None:
    story = Story([refused(retry_after=1.0), refused(retry_after=1.0)], drawn=0.0)
    with pytest.raises(Fault, match="full"):
        story.run(Budget(Retries()), due=102.0)
    assert (story.waits, story.left) == ([1.0], [2.0, 1.0])
    late = Story([])
    with pytest.raises(Fault, match="here gave no answer in time") as error:
        late.run(Budget(Retries()), due=100.0)
    assert error.value.code is Code.DEADLINE


def test_who_cancels_while_it_waits_ends_it() -> None:
    story = Story([refused(), refused()])
    story.cancel_at = 2
    with pytest.raises(Fault) as error:
        story.run(Budget(Retries()))
    assert error.value.code is Code.CANCELLED
    assert len(story.left) == 2


def test_while_half_of_the_tokens_are_gone_nothing_is_sent_again() -> None:
    budget = Budget(Retries(attempts=9, tokens=10, ratio=0.5))
    with pytest.raises(Fault):
        Story([refused()] * 9).run(budget)  # five tokens of ten, of which four are for retries
    assert budget.counts == Counts(requests=1, retries=4, throttled=1)
    with pytest.raises(Fault):
        Story([refused()]).run(budget)
    assert budget.counts == Counts(requests=2, retries=4, throttled=2)
    for _ in range(5):  # each gives half a token back: 6.5 of ten
        Story(["answer"]).run(budget)
    assert Story([refused(), "answer"]).run(budget) == "answer"
    assert budget.counts == Counts(requests=8, retries=5, throttled=2)


@pytest.mark.parametrize("every", [1, 2, 20])
def test_few_failures_are_all_made_good_and_many_are_not_made_more(every: int) -> None:
    budget, tried = Budget(Retries(tokens=10, ratio=0.1)), 1000
    for number in range(tried):
        story = Story([refused(), "answer"] if number % every == 0 else ["answer"])
        with suppress(Fault):
            story.run(budget)
    counts = budget.counts
    assert counts.retries + counts.throttled == tried // every
    assert counts.retries <= 5 + 0.1 * tried
    assert (counts.throttled == 0) == (every == 20)


def test_failures_beyond_repair_cost_no_tokens() -> None:
    budget = Budget(Retries())
    for _ in range(50):
        with pytest.raises(Fault):
            Story([broken()]).run(budget)
    assert Story([refused(), "answer"]).run(budget) == "answer"


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"first": -1.0},
        {"growth": 0.5},
        {"tokens": 0.0},
        {"ratio": 0.0},
        {"ratio": 2.0},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        Retries(**wrong)  # type: ignore[arg-type] of a test
