"""A call has one shape and one outcome, here or at a server, over every carrier."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from headrace import Code, Fault, RequestError
from tests.client.same import EMBEDDED, WAYS, callers

F32 = np.float32
Call = Callable[[Any], object]  # Any: an App or a Client


class Foreign:
    """An array of another library, which hands its memory over."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **asked: Any) -> Any:  # Any: as DLPack says
        return self._array.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


NUMBERS: dict[str, Any] = {
    "a": 1.5,
    "c": [1.0, 2.0],
    "d": np.arange(8, dtype=F32).reshape(2, 4),
    "e": (1, 2, 255),
    "f": True,
    "g": np.array([1, 0.5], np.float16),
}
ROWS: dict[str, Any] = {
    "x": [1, 2.5],
    "v": np.arange(6, dtype=F32).reshape(2, 3),
    "t": ["a", "ü"],
    "l": [[[1, 2]], []],
}
SAID: dict[str, Any] = {"id": "k7", "parameters": {"lang": "fr", "n": -2, "h": 0.5, "on": True}}


async def awaited(records: Any) -> list[object]:  # Any: an asynchronous iterator
    return [one async for one in records]


def in_sequence(app: Any) -> object:
    found: list[object] = []
    with app.counted.sequence() as calls:
        found += [calls(x=1.0), calls.submit(x=2.0).result(20), asyncio.run(calls.aio(x=3.0))]
        found.append(outcome_of(lambda: calls(x=13.0)))
        found += [calls(x=1.0, outputs="y"), calls.last(x=0.0), calls(x=5.0)]
        calls.restart()
        found.append(calls(x=4.0))
        found += [one.result(20) for one in [calls.submit(x=1.0) for _ in range(20)]]
    return found


def whose_start_fails(app: Any) -> object:
    calls = app.counted.sequence("whose start fails")
    submitted = [calls.submit(x=x) for x in (13.0, 1.0)]
    found = [outcome_of(lambda: one.result(20)) for one in submitted]  # noqa: B023 asked at once
    return [found, calls(x=2.0), calls(x=2.0)]


def growing(app: Any) -> object:
    calls = app.growing.sequence("g")
    found = [[*calls.stream(x=1.0)], calls(x=2.0), asyncio.run(awaited(calls.aio_stream(x=1.0)))]
    return [*found, calls.last(x=0.0)]


def left_early(app: Any) -> object:
    records = app.spoken.stream(x=0.0, most=100)
    found = [next(records), next(records)]
    records.close()
    return [found, app.spoken(x=0.0, most=1)]


CALLS: dict[str, Call] = {
    "numbers": lambda app: app.numbers(**NUMBERS),
    "more numbers": lambda app: app.numbers(**{**NUMBERS, "b": np.int64(-3), "f": np.bool_(False)}),
    "nothing in them": lambda app: app.numbers(
        **{**NUMBERS, "c": [], "d": np.zeros((0, 0), F32), "g": np.zeros(0, np.float16)}
    ),
    "a strided array": lambda app: app.numbers(
        **{**NUMBERS, "d": np.arange(16, dtype=F32).reshape(2, 8)[:, ::2]}
    ),
    "big-endian": lambda app: app.numbers(**{**NUMBERS, "c": np.array([1, 2], ">f8")}),
    "dlpack": lambda app: app.numbers(**{**NUMBERS, "d": Foreign(NUMBERS["d"])}),
    "dlpack of another type": lambda app: app.numbers(
        **{**NUMBERS, "d": Foreign(np.zeros((2, 4)))}
    ),
    "texts": lambda app: app.texts(a="ü", b=b"\xff\0", c=["a", ""], d="d"),
    "texts left out": lambda app: app.texts(a="", b=b"", c=np.array([], object)),
    "defaults": lambda app: [app.defaults(), app.defaults.signature],
    "one name in and out": lambda app: app.same(x="text"),
    "optional, given": lambda app: app.maybe(x=1.0, y=[1, 2]),
    "optional, None": lambda app: app.maybe(x=None, y=[1, 2]),
    "optional, left out": lambda app: app.maybe(),
    "lists": lambda app: app.lists(
        a=[[1, 2, 3, 4]] * 2, b=[np.zeros((2, 1), F32), np.ones((2, 3), F32)], c=["a", ""]
    ),
    "empty lists": lambda app: app.lists(a=[], b=[], c=[]),
    "ragged": lambda app: app.ragged(n=3),
    "rows": lambda app: app.rows(**ROWS),
    "rows by dlpack": lambda app: app.rows(**{**ROWS, "v": Foreign(ROWS["v"])}),
    "dlpack of too little": lambda app: app.rows(**{**ROWS, "v": Foreign(np.zeros(3, F32))}),
    "no rows": lambda app: app.rows(x=[], v=[], t=[], l=[]),
    "optional in rows, left out": lambda app: app.maybe_rows(x=[1, 2]),
    "optional in rows, absent": lambda app: app.maybe_rows(x=[1, 2], t=[None, None]),
    "optional in rows, given": lambda app: app.maybe_rows(
        x=[1, 2], v=ROWS["v"], t=["a", "ü"], l=ROWS["l"]
    ),
    "optional in rows, of which nothing comes": lambda app: app.maybe_rows(
        x=[1, 2], outputs=["t", "v"]
    ),
    "optional in no rows": lambda app: app.maybe_rows(x=[], v=[], t=[], l=[]),
    "some outputs": lambda app: app.two(x=1.0, outputs=["b"]),
    "no outputs": lambda app: app.two(x=1.0, outputs=[]),
    "outputs turned round": lambda app: app.two(x=1.0, outputs=("b", "a")),
    "by name": lambda app: app["two"](x=2.0),
    "what is told": lambda app: app.asks(x=1.0, **SAID),
    "with a limit": lambda app: app.asks(x=1.0, timeout=60, priority=1),
    "submitted": lambda app: app.asks.submit(x=1.0, priority=2, timeout=60, **SAID).result(20),
    "awaited": lambda app: asyncio.run(app.asks.aio(x=1.0, timeout=60, **SAID)),
    "an input called as an option": lambda app: app.timeout(timeout=3.0, id="mine"),
    "a stream": lambda app: [*app.spoken.stream(x=0.0, timeout=60, **SAID)],
    "a stream, awaited": lambda app: asyncio.run(awaited(app.spoken.aio_stream(x=0.0, timeout=60))),
    "a whole stream": lambda app: app.spoken(x=0.0, timeout=60),
    "a whole stream, submitted": lambda app: app.spoken.submit(x=0.0, timeout=60).result(20),
    "an empty stream": lambda app: [[*app.spoken.stream(x=0.0, most=0)], app.spoken(x=0.0, most=0)],
    "a stream left early": left_early,
    "a stream that fails": lambda app: [*app.spoken.stream(x=11.0)],
    "a sequence": in_sequence,
    "a sequence whose start fails": whose_start_fails,
    "a stream of a sequence": growing,
    "a fault": lambda app: app.fault(x=13.0),
    "a fault, with an id": lambda app: app.fault(x=13.0, id="k 'ü'"),
    "a fault, submitted": lambda app: app.fault.submit(x=13.0).result(20),
    "a fault of an item": lambda app: app.items(x=[1.0, 13.0]),
    "no such input": lambda app: app.two(y=1.0),
    "an input too little": lambda app: app.texts(a="a"),
    "another type": lambda app: app.two(x="text"),
    "another shape": lambda app: app.numbers(**{**NUMBERS, "d": np.zeros((2, 2), F32)}),
    "another dtype": lambda app: app.numbers(**{**NUMBERS, "c": np.zeros(2, F32)}),
    "too many rows": lambda app: app.rows(
        x=[1.0] * 5, v=np.zeros((5, 3), F32), t=["a"] * 5, l=[[]] * 5
    ),
    "no such output": lambda app: app.two(x=1.0, outputs=["z"]),
    "an output twice": lambda app: app.two(x=1.0, outputs=["a", "a"]),
    "some outputs of a stream": lambda app: app.spoken(x=1.0, outputs=["n"]),
    "outputs that are none": lambda app: app.two(x=1.0, outputs=3),
    "parameters that are none": lambda app: app.two(x=1.0, parameters={"a": [1]}),
    "an id that is none": lambda app: app.two(x=1.0, id=3),
    "an input that does not fit, submitted": lambda app: app.two.submit(x="text"),
    "limits that are not reached": lambda app: [
        app.two(x=1.0, timeout=limit)
        for limit in (float("inf"), 1e308, 10**400, np.float32(60), np.int64(60))
    ],
    "a time limit of nothing": lambda app: app.two(x=1.0, timeout=float("nan")),
    "a time limit that is a text": lambda app: app.two(x=1.0, timeout="1"),
    "priorities": lambda app: [app.two(x=1.0, priority=one) for one in (np.int32(2), 2**63 - 1)],
    "priorities that are none": lambda app: [
        outcome_of(lambda: app.two(x=1.0, priority=one))  # noqa: B023 asked at once
        for one in (-1, 1.5, True, "1", 2**70)
    ],
    "values that no parameter has": lambda app: [
        outcome_of(lambda: app.two(x=1.0, parameters={"a": one}))  # noqa: B023 asked at once
        for one in (float("nan"), 2**64, -(2**63) - 1, "\ud800")
    ],
    "a parameter that is an option": lambda app: app.two(x=1.0, parameters={"timeout": 1}),
    "an id that is half a letter": lambda app: app.two(x=1.0, id="\ud800"),
    "ids of sequences": lambda app: [
        app.counted.sequence(one).last(x=1.0) for one in (1, 2**64 - 1, "1", "s" * 128)
    ],
    "ids of sequences that are none": lambda app: [
        outcome_of(lambda: app.counted.sequence(one))  # noqa: B023 asked at once
        for one in (0, -1, 2**64, True, "", "s" * 129, "\ud800")
    ],
    "no stream": lambda app: app.two.stream(x=1.0),
    "no sequence": lambda app: app.two.sequence(),
    "a sequence that is missing": lambda app: app.counted(x=1.0),
    "an id of a sequence that is none": lambda app: app.counted.sequence(1.5),
    "a signature": lambda app: [one.signature for one in (app.numbers, app.rows, app.spoken)],
}


@pytest.mark.slow
def test_rows_of_which_some_lack_a_value_are_refused_where_they_would_travel(
    ways: dict[str, Any],
) -> None:
    assert ways[EMBEDDED].maybe_rows(x=[1, 2], t=["a", None]).t == ["a", None]
    for way in WAYS[1:]:
        with pytest.raises(RequestError, match="`t` is absent from 1 of 2 rows"):
            ways[way].maybe_rows(x=[1, 2], t=["a", None])


class Raised(NamedTuple):
    """A failure, without what another process cannot have."""

    kind: str
    code: Code | None
    text: str
    where: tuple[object, ...]


def outcome_of(call: Callable[[], object]) -> object:
    """Return what a call gives or raises, for comparison."""
    try:
        return plain(call())
    except Fault as fault:
        where = (fault.pipeline, fault.stage, fault.item, fault.place)
        return Raised(type(fault).__name__, fault.code, fault.message, where)
    except (TypeError, ValueError) as error:
        return Raised(type(error).__name__, None, str(error), ())


def plain(value: object) -> object:
    """Return a value with its types, dtypes and shapes, so that what is equal is the same."""
    match value:
        case np.ndarray():
            return ("array", str(value.dtype), value.shape, plain(value.tolist()))
        case np.generic():
            return (type(value).__name__, value.item())
        case tuple() if hasattr(value, "_fields"):
            names: tuple[str, ...] = getattr(value, "_fields")  # noqa: B009 a Record's
            return (type(value).__name__, names, [plain(one) for one in value])
        case list() | tuple():
            return [plain(one) for one in value]
        case _:
            return (type(value).__name__, value)


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with callers(tmp_path_factory.mktemp("same")) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_the_same_outcome_wherever_it_is_answered(
    ways: dict[str, Any], name: str
) -> None:
    expected = outcome_of(lambda: CALLS[name](ways[EMBEDDED]))
    for way in WAYS[1:]:
        assert outcome_of(lambda: CALLS[name](ways[way])) == expected, way  # noqa: B023
