"""Callers of the soak: how they ask questions of which the right answers are known.

Every question is answered in the caller's own thread first, by each version of its plan that takes
turns; what is answered under load must be one of these, whole. Callers wait, give a time limit that
may be too short, or go away; what may come of each is said here, and all else is wrong.
"""

import random
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from headrace.runtime.engine import Engine
from headrace.runtime.request import Code, Fault, InSequence, Request
from headrace.runtime.service import Service

PATIENCE = 60.0  # seconds after which an answer counts as lost

Outputs: TypeAlias = Mapping[str, Any]  # Any: items of any kind
Answer: TypeAlias = "Outputs | Code"


@dataclass(frozen=True, slots=True)
class Question:
    """A request, or those of a whole sequence, and what are right answers to each; `may_fail` says
    with what it may fail though all is well."""

    requests: tuple[Request, ...]
    answers: tuple[tuple[Answer, ...], ...]
    may_fail: frozenset[Code] = frozenset()

    @property
    def pipeline(self) -> str:
        return self.requests[0].pipeline

    def failing(self, codes: frozenset[Code]) -> "Question":
        """Return it with more faults that it may end with."""
        return replace(self, may_fail=self.may_fail | codes)

    def or_else(self, *answers: Answer) -> "Question":
        """Return it with more answers that are right, of one request."""
        return replace(self, answers=((*self.answers[0], *answers),))


@dataclass(slots=True)
class Record:
    """What has come of all questions, by pipeline; `wrong` says what should not have. So many
    `futures` were given to callers, and so many `answers` came to them."""

    came: "Counter[tuple[str, str]]" = field(default_factory=Counter[tuple[str, str]])
    futures: int = 0
    answers: int = 0
    wrong: list[str] = field(default_factory=list[str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, pipeline: str, outcome: str) -> None:
        with self.lock:
            self.came[pipeline, outcome] += 1

    def expect(self, future: "Future[Any]") -> None:  # Any: whatever it gives
        with self.lock:
            self.futures += 1
        future.add_done_callback(self._answered)

    def _answered(self, _: object) -> None:
        with self.lock:
            self.answers += 1

    def accuse(self, text: str) -> None:
        with self.lock:
            self.wrong.append(text)
        if len(self.wrong) < 20:
            print("WRONG", text[:1500], flush=True)


def question(engines: Sequence[Engine], *requests: Request) -> Question:
    """Ask each version of a plan in this thread."""
    by_engine = [[_inline(engine, one) for one in requests] for engine in engines]
    return Question(requests, tuple(zip(*by_engine, strict=True)))


def _inline(engine: Engine, request: Request) -> Answer:
    try:
        return engine.call(request).outputs
    except Fault as fault:
        if "poison" not in fault.message:
            raise
        return fault.code


class Caller:
    """Asks the questions of one kind, one after the other, in random order and ways."""

    def __init__(self, service: Service, questions: Sequence[Question], record: Record, seed: int):
        self._service, self._questions, self._record = service, questions, record
        self._random = random.Random(seed)
        self._seed, self._number = seed, 0

    def ask(self) -> None:
        """Ask one question, or all of a sequence."""
        asked = self._random.choice(self._questions)
        model = self._service.find(asked.requests[0].pipeline)
        if model.pipeline.stream:
            self._read(asked)
        elif asked.requests[0].sequence is not None:
            self._follow(asked)
        else:
            levels = self._random.choice((0, 1, 2, 3))
            self._one(asked, asked.requests[0]._replace(priority=levels), asked.answers[0])

    def wait(self) -> None:
        """Ask each question once, and wait for the answers."""
        for asked in self._questions:
            self._came(asked, asked.requests[0], asked.answers[0], set(asked.may_fail), None)

    def _one(self, asked: Question, request: Request, answers: Sequence[Answer]) -> bool:
        """Ask in one of the ways, and return whether there was an answer, or none that should
        have been."""
        draw, allowed, patience = self._random.random(), set(asked.may_fail), None
        if draw < 0.1:
            limit = self._random.choice((0.0, 0.002, 0.02, 0.2))
            request = request._replace(deadline=self._service.now() + limit)
            allowed |= {Code.DEADLINE, Code.OVERLOADED}
        elif draw < 0.2:
            patience = self._random.choice((0.0, 0.001, 0.01, 0.1))
        return self._came(asked, request, answers, allowed, patience)

    def _came(
        self,
        asked: Question,
        request: Request,
        answers: Sequence[Answer],
        allowed: set[Code],
        patience: float | None,
    ) -> bool:
        try:
            outputs = self._outcome(request, patience)
        except CancelledError:
            self._record.note(request.pipeline, "cancelled")
            return False
        except Fault as fault:
            self._record.note(request.pipeline, fault.code.value)
            if fault.code not in allowed and fault.code not in answers:
                self._record.accuse(f"{asked.pipeline}: {fault.code} {fault} {fault.detail}")
                return True
            return False
        self._record.note(request.pipeline, "right")
        if not any(_equal(outputs, one) for one in answers):
            self._record.accuse(f"{asked.pipeline}: {outputs} is not in {answers}")
        return True

    def _outcome(self, request: Request, patience: float | None) -> Outputs:
        """Return the answer; goes away after `patience` seconds, where they are said."""
        model = self._service.find(request.pipeline)
        _, outcome = self._service.begin(model, request)
        if not isinstance(outcome, Future):
            return outcome
        self._record.expect(outcome)
        if patience is not None:
            threading.Event().wait(patience)
            outcome.cancel()
        try:
            return outcome.result(PATIENCE).outputs
        except TimeoutError:
            self._record.accuse(f"{request.pipeline}: no answer in {PATIENCE:.0f} s")
            raise CancelledError from None

    def _follow(self, asked: Question) -> None:
        """Ask all of a sequence; what was not answered is asked again, for it changed nothing."""
        self._number += 1
        name = f"{self._seed}-{self._number}"
        pairs = list(zip(asked.requests, asked.answers, strict=True))
        until = self._random.randrange(len(pairs))  # callers do not agree on when to stop
        for step, (request, answers) in enumerate(pairs):
            if step > until:
                break
            point = InSequence(name, start=step == 0, end=step == until)
            again = request._replace(sequence=point)
            while not self._one(asked, again, answers):
                pass

    def _read(self, asked: Question) -> None:
        """Read a stream to its end, or leave it before."""
        arrived = threading.Event()
        request, (answers,) = asked.requests[0], asked.answers
        model = self._service.find(request.pipeline)
        stream = self._service.open(model, request, _keep, arrived.set)  # pyright: ignore[reportArgumentType]
        right = [one for one in answers if not isinstance(one, Code)]
        name, got = next(iter(right[0])), list[Any]()
        most = self._random.randrange(40) if self._random.random() < 0.3 else 1000
        while len(got) < most and not stream.over:
            taken: list[Any] = stream.take()
            got += [one[name] for one in taken]
            if not taken and not stream.over:
                if not arrived.wait(PATIENCE):
                    self._record.accuse(f"{request.pipeline}: the stream stands still")
                    break
                arrived.clear()
        ended = len(got) < most and stream.over
        self._record.note(request.pipeline, "right" if ended else "left")
        stream.cancel()
        wholes = [list(one[name]) for one in right]
        if got not in [whole if ended else whole[: len(got)] for whole in wholes]:
            self._record.accuse(f"{asked.pipeline}: {got} is not in {answers}")


def _keep(_: object, outputs: Outputs) -> Any:  # Any: a stream carries what its maker likes
    return dict(outputs)


def _equal(ours: Outputs, theirs: Answer) -> bool:
    if isinstance(theirs, Code) or ours.keys() != theirs.keys():
        return False
    return all(_same(ours[name], theirs[name]) for name in ours)


def _same(one: Any, other: Any) -> bool:
    if isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    a, b = np.asarray(one), np.asarray(other)
    if a.dtype.kind != "f":
        return a.shape == b.shape and bool((a == b).all())
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=0, atol=1e-5))


@dataclass(frozen=True, slots=True)
class Callers:
    """So many callers, which rest for up to `rest` seconds between two questions."""

    questions: Sequence[Question]
    count: int
    rest: float = 0.1


def crowd(service: Service, questions: Sequence[Question], record: Record) -> None:
    """Ask all questions at one time, and wait for the answers."""
    callers = [Caller(service, [one], record, 0) for one in questions]
    with ThreadPoolExecutor(len(callers)) as pool:
        list(pool.map(Caller.wait, callers))  # raises what one of them has


def run(
    service: Service, callers: Sequence[Callers], record: Record, stop: threading.Event
) -> list[threading.Thread]:
    """Let them ask until `stop` is set."""

    def go(caller: Caller, rest: float, draw: random.Random) -> None:
        try:
            while not stop.wait(draw.random() * rest):
                caller.ask()
        except BaseException as error:
            record.accuse(f"a caller ended: {type(error).__name__}: {error}")
            raise

    threads: list[threading.Thread] = []
    for kind in callers:
        for _ in range(kind.count):
            seed = len(threads)
            caller, draw = Caller(service, kind.questions, record, seed), random.Random(seed)
            threads.append(threading.Thread(target=go, args=(caller, kind.rest, draw)))
    for thread in threads:
        thread.start()
    return threads
