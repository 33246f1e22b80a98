"""What a Python stage is told of the request that it serves, wherever and with whom it runs."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

import headrace
from headrace import Context, Record
from headrace.runtime.check_batch import check_batch
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import InSequence, Request
from headrace.runtime.simulate import Simulation

FUNCTIONS = """
import headrace

def said(context):
    left = context.remaining()
    bound = "no limit" if left is None else f"{left:.0f} s"
    known = ",".join(f"{name}={value}" for name, value in context.parameters.items())
    return f"{context.id}/{known}/{context.priority}/{bound}"

def one(x, context: headrace.Context):
    return said(context)

def many(xs, contexts: list[headrace.Context]):
    return [f"{said(context)} of {len(contexts)}" for context in contexts]

class Model:
    def __call__(self, xs, contexts: "list[headrace.Context]"):
        assert len(xs) == len(contexts)
        return [said(context) for context in contexts]

class Filled:
    def __call__(self, xs, contexts: list[headrace.Context]):
        return xs + 1, [said(context) for context in contexts]

def fails(x, context: headrace.Context):
    raise ValueError(f"{context.id} fails")

def plain(x):
    return x
"""
SOURCE = """
fn one(x: f32) -> (said: string) = python "stages.py:one"
fn many(x: f32) -> (said: string) = python "stages.py:many" batched
fn fails(x: f32) -> (said: string) = python "stages.py:fails"
fn plain(x: f32) -> (x: f32) = python "stages.py:plain"
model both = python "stages.py:Model" (x: f32) -> (said: string)
model apart = python "stages.py:Model" (x: f32) -> (said: string)
model filled = python "stages.py:Filled" (x: f32[L]) -> (y: f32[L], said: string)
    pads L with (x = 0)

pipeline p(x: f32) -> (one: string, many: string, both: string, apart: string) {
    return one = one(x), many = many(x), both = both(x), apart = apart(x)
}
pipeline inner(x: f32[N], deep: bool) -> (said: string[N]) {
    found = for item in x {
        yield said = if deep { many(item) } else { one(item) }
    }
    return said = found.said
}
pipeline rows(x: f32) -> (said: string) batch 4 { return said = many(x) }
pipeline tried(x: f32) -> (said: string) { return said = try fails(x) else one(x) }
pipeline told(x: f32) -> stream (said: string) {
    last = loop (n: i64 = 0) max 2 {
        emit said = one(x)
        next n = n + 1
    }
}
pipeline kept(x: f32) -> (said: string, n: i64) per sequence {
    state n: i64 = 0
    next n = n + 1
    return said = both(x), n = n
}
pipeline padded(x: f32[L]) -> (y: f32[L], said: string) {
    y, said = filled(x)
    return y = y, said = said
}
pipeline urgent(x: f32) -> (said: string) deadline 100s { return said = one(x) }
pipeline untold(x: f32) -> (x: f32) { return x = plain(x) }

schedule p {
    many  { batch { max = 4, wait = 1s } },
    apart { warmup = [1, 2] },
    both  { warmup = [2] },
}
schedule kept {
    both { batch { max = 3, wait = 20ms } },
    sequences { strategy = direct, slots = 3 },
}
schedule padded { filled { batch { max = 2, wait = 1s, pad = L } } }
schedule urgent { priority { levels = 3, default = 2 } }
"""
ISOLATED = SOURCE.replace("apart {", "apart { isolate = on,")
X = np.float32(1)


@pytest.fixture(
    scope="module",
    params=[SOURCE, pytest.param(ISOLATED, marks=pytest.mark.slow)],
    ids=["in this process", "one in another"],
)
def plan(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> headrace.CompiledPlan:
    folder = tmp_path_factory.mktemp("context")
    (folder / "stages.py").write_text(FUNCTIONS)
    (folder / "p.pipe").write_text(request.param)
    return headrace.compile(folder / "p.pipe")


@pytest.fixture(scope="module")
def engine(plan: headrace.CompiledPlan) -> Iterator[Engine]:
    engine = Engine(plan.plan, EngineConfig(workers=2, intra_op_threads=1))
    yield engine
    engine.close()


def request(
    pipeline: str,
    number: int = 0,
    *,
    sequence: InSequence | None = None,
    seconds: float | None = None,
    **inputs: Any,  # Any: values of any type
) -> Request:
    deadline = None if seconds is None else time.monotonic() + seconds
    parameters = {"lang": "en", "n": number}
    named = inputs or {"x": X}
    identity = f"id{number}"
    return Request(pipeline, named, identity, deadline, 2, parameters=parameters, sequence=sequence)


def answered(engine: Engine, *requests: Request) -> list[list[object]]:
    futures = [engine.submit(one) for one in requests]
    return [[*future.result(20).outputs.values()] for future in futures]


def test_a_call_in_its_own_thread_tells_each_kind_of_stage(engine: Engine) -> None:
    outputs = engine.call(request("p", seconds=1000)).outputs
    said = "id0/lang=en,n=0/2/1000 s"
    assert [*outputs.values()] == [said, f"{said} of 1", said, said]


def test_rows_of_several_requests_meet_and_each_is_told_of_its_own(engine: Engine) -> None:
    for number, (one, many, both, apart) in enumerate(
        answered(engine, *(request("p", number) for number in range(4)))
    ):
        said = f"id{number}/lang=en,n={number}/2/no limit"
        assert (one, both, apart) == (said, said, said)
        assert str(many).startswith(said)


def test_simulated_requests_meet_in_one_batch(plan: headrace.CompiledPlan) -> None:
    simulation = Simulation(plan.plan)
    outcomes = [simulation.submit(request("p", number)) for number in range(3)]
    simulation.run()
    said = [outcome.outputs["many"] for outcome in outcomes if outcome.outputs is not None]
    assert said == [f"id{number}/lang=en,n={number}/2/no limit of 3" for number in range(3)]


@pytest.mark.parametrize("deep", [False, True])
def test_rows_within_a_request_are_told_of_it(engine: Engine, deep: bool) -> None:
    wanted = request("inner", x=np.zeros(3, np.float32), deep=deep)
    said = "id0/lang=en,n=0/2/no limit" + " of 3" * deep
    for outputs in ([*engine.call(wanted).outputs.values()], *answered(engine, wanted)):
        assert np.asarray(outputs[0]).tolist() == [said] * 3


def test_rows_of_a_batch_on_the_wire_are_told_of_their_request(engine: Engine) -> None:
    outputs = engine.call(request("rows", x=np.zeros(2, np.float32))).outputs
    assert np.asarray(outputs["said"]).tolist() == ["id0/lang=en,n=0/2/no limit of 2"] * 2


def test_what_a_try_falls_back_to_is_told(engine: Engine) -> None:
    assert engine.call(request("tried")).outputs["said"] == "id0/lang=en,n=0/2/no limit"
    assert answered(engine, request("tried")) == [["id0/lang=en,n=0/2/no limit"]]


def test_each_response_of_a_stream_is_told(engine: Engine) -> None:
    said = "id0/lang=en,n=0/2/no limit"
    assert np.asarray(engine.call(request("told")).outputs["said"]).tolist() == [said] * 2
    ((submitted,),) = answered(engine, request("told"))
    assert np.asarray(submitted).tolist() == [said] * 2


def test_requests_of_a_sequence_are_told_in_rows_of_their_own(engine: Engine) -> None:
    for number in range(2):
        sequence = InSequence("a", start=number == 0)
        wanted = request("kept", number, sequence=sequence)
        outputs = (
            engine.submit(wanted).result(20).outputs if number else engine.call(wanted).outputs
        )
        assert outputs["said"] == f"id{number}/lang=en,n={number}/2/no limit"
        assert outputs["n"] == number


def test_rows_that_are_filled_up_keep_their_requests(plan: headrace.CompiledPlan) -> None:
    simulation = Simulation(plan.plan)
    outcomes = [
        simulation.submit(request("padded", size, x=np.zeros(size, np.float32))) for size in (2, 5)
    ]
    simulation.run()
    assert [rows for _, name, rows in simulation.runs if name == "filled"] == [2]
    for outcome, size in zip(outcomes, (2, 5), strict=True):
        assert outcome.outputs is not None
        assert outcome.outputs["said"] == f"id{size}/lang=en,n={size}/2/no limit"
        assert np.asarray(outcome.outputs["y"]).tolist() == [1.0] * size


def test_the_shorter_limit_and_the_level_of_the_pipeline_are_told(engine: Engine) -> None:
    assert engine.call(request("urgent")).outputs["said"] == "id0/lang=en,n=0/2/100 s"
    plain = Request("urgent", {"x": X})
    assert answered(engine, plain, request("urgent", seconds=50)) == [
        ["//2/100 s"],
        ["id0/lang=en,n=0/2/50 s"],
    ]


def test_the_time_that_is_told_is_what_is_left() -> None:
    now = 0.0
    context = Context(deadline=5.0, clock=lambda: now)
    assert context.remaining() == 5.0
    now = 3.0
    assert context.remaining() == 2.0
    now = 7.0
    assert context.remaining() == 0.0
    assert Context().remaining() is None


def test_a_caller_in_python_who_says_nothing_more_has_a_context_that_says_so(
    plan: headrace.CompiledPlan,
) -> None:
    with headrace.load(plan) as app:
        assert app.urgent(x=1.0).said == "//2/100 s"
        assert app.urgent(x=1.0, timeout=50).said == "//2/50 s"
        assert app.urgent.submit(x=1.0, priority=1).result(20).said == "//1/100 s"
        assert [one.said for one in app.told.stream(x=1.0)] == ["//0/no limit"] * 2


def test_a_caller_in_python_says_the_same_however_it_calls(plan: headrace.CompiledPlan) -> None:
    async def all_of(records: AsyncIterator[Record]) -> list[str]:
        return [one.said async for one in records]

    said: dict[str, Any] = {"id": "k7", "parameters": {"lang": "fr", "n": 2}, "priority": 1}
    expected = "k7/lang=fr,n=2/1/100 s"
    emitted = ["k7/lang=fr,n=2/1/no limit"] * 2
    with headrace.load(plan) as app:
        told: Any = app.urgent(x=1.0, **said)
        assert told.said == expected
        assert app.urgent.submit(x=1.0, **said).result(20).said == expected
        told = asyncio.run(app.urgent.aio(x=1.0, **said))
        assert told.said == expected
        assert [one.said for one in app.told.stream(x=1.0, **said)] == emitted
        assert asyncio.run(all_of(app.told.aio_stream(x=1.0, **said))) == emitted
        with app.kept.sequence() as calls:
            assert calls(x=1.0, **said).said == emitted[0]
            assert calls.submit(x=1.0, **said).result(20).said == emitted[0]
            assert calls.last(x=1.0, **said).said == emitted[0]
        with pytest.raises(TypeError, match="parameters are bools"):
            app.urgent(x=1.0, parameters={"lang": ["fr"]})
        with pytest.raises(TypeError, match="the id of a request is a text"):
            app.urgent.submit(x=1.0, id=7)


def test_a_context_cannot_be_changed_by_a_stage() -> None:
    parameters = {"a": 1}
    context = Context(parameters=parameters)
    parameters["a"] = 2
    assert context.parameters == {"a": 1}
    with pytest.raises(TypeError):
        context.parameters["a"] = 3  # type: ignore[index] that it cannot be is what is tested


def test_pipelines_without_such_a_stage_keep_their_short_way(engine: Engine) -> None:
    assert engine.pipeline("untold").told == {}
    assert engine.pipeline("untold").whole[0].calls is not None


@pytest.mark.slow
def test_models_that_are_told_can_be_compared_in_batches(plan: headrace.CompiledPlan) -> None:
    assert check_batch(plan.plan, {})
