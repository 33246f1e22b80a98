"""Results that a stage's cache keeps: found by content, bounded in bytes, nobody's but its own."""

import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from headrace.compiler.plan import Batching, ModelSegment, Plan, PythonSegment, Service
from headrace.dsl.types import Field
from headrace.runtime.cache import Cache
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Fault, Request
from headrace.runtime.rows import Constant, Rows, Value
from headrace.runtime.simulate import Simulation
from tests.runtime.plans import PlanMaker, add_model, block, call, fields, kind

X, Y = fields(x="f32[N]"), fields(y="f32[N]")

TWICE = "def f(x):\n    if x[0] < 0:\n        raise ValueError('below')\n    return x * 2\n"


def cached(maker: PlanMaker, capacity: int = 1 << 20) -> Plan:
    """The plan of a pipeline of the one stage of `maker`, which has a cache."""
    (segment,) = maker.segments
    assert isinstance(segment, ModelSegment | PythonSegment)
    maker.segments[0] = replace(segment, service=Service(cache=capacity))
    maker.pipeline("p", X, Y, block([0], [call(0, [0], [1])], [1]), batch=8)
    return maker.plan()


def function_plan(capacity: int = 1 << 20, **given: object) -> Plan:
    maker = PlanMaker()
    maker.python("f", TWICE, X, Y, **given)  # type: ignore[arg-type]
    return cached(maker, capacity)


def ask(engine: Engine, *rows: Sequence[float]) -> np.ndarray:
    inputs = {"x": np.array(rows, np.float32)}
    return cast("np.ndarray", engine.call(Request("p", inputs)).outputs["y"])


def a_cache(capacity: int = 1 << 20, params: tuple[Field, ...] = X) -> Cache:
    maker = PlanMaker()
    maker.python("f", TWICE, params, Y)
    (segment,) = maker.segments
    assert isinstance(segment, PythonSegment)
    return Cache(segment, capacity)


def test_rows_whose_results_are_kept_leave_the_batch_and_the_others_run() -> None:
    maker = PlanMaker()
    maker.onnx("m", add_model(1.0, "N"), X, Y, group=8)
    engine = Engine(cached(maker), EngineConfig(workers=1))
    np.testing.assert_array_equal(ask(engine, [1, 1], [2, 2]), [[2, 2], [3, 3]])
    np.testing.assert_array_equal(
        ask(engine, [3, 3], [1, 1], [4, 4], [3, 3]), [[4, 4], [2, 2], [5, 5], [4, 4]]
    )
    counts = engine.metrics.stage("m")
    assert (counts.rows, counts.executions, counts.sizes) == (4, 2, {2: 2})
    assert (counts.cache_hits, counts.cache_misses) == (2, 4)
    assert (engine.metrics.pipeline("p").cache_hits, engine.metrics.pipeline("p").cache_misses) == (
        2,
        4,
    )
    engine.close()


def test_a_hit_waits_in_no_queue() -> None:
    maker = PlanMaker()
    maker.onnx("m", add_model(1.0, "N"), X, Y, batching=Batching(8, 5.0, ()))
    simulation = Simulation(cached(maker), workers=2)
    request = Request("p", {"x": np.ones((1, 2), np.float32)})
    simulation.submit(request)
    simulation.run()
    others = [
        simulation.submit(Request("p", {"x": one})) for one in np.eye(3, dtype=np.float32)[:, None]
    ]
    again, at = simulation.submit(request), simulation.now
    simulation.run()
    assert again.outputs is not None
    assert again.at == at  # and the others had to wait for each other
    assert all(one.at is not None and one.at > at for one in others)
    np.testing.assert_array_equal(np.asarray(again.outputs["y"]), [[2, 2]])


def test_results_are_the_same_with_and_without_a_cache_whatever_comes_in_what_order() -> None:
    engine = Engine(function_plan(3000), EngineConfig(workers=1))
    chosen = random.Random(5)
    for _ in range(300):
        rows = [[float(chosen.randrange(12))] * 3 for _ in range(chosen.randint(1, 6))]
        np.testing.assert_array_equal(ask(engine, *rows), np.array(rows) * 2)
    counts = engine.metrics.stage("f")
    assert counts.cache_hits > 100
    assert counts.cache_misses > 100
    engine.close()


def test_faults_are_not_kept_and_name_the_row_that_ran() -> None:
    engine = Engine(function_plan(), EngineConfig(workers=1))
    ask(engine, [1, 1], [2, 2])
    for _ in range(2):
        with pytest.raises(Fault, match="below") as caught:
            ask(engine, [1, 1], [2, 2], [-1, 0])
        assert caught.value.item == (2,)
    assert engine.metrics.stage("f").cache_misses == 4
    engine.close()


def test_what_a_caller_does_to_its_results_changes_nothing_that_is_kept() -> None:
    engine = Engine(function_plan(), EngineConfig(workers=1))
    given = np.array([[1.0, 1.0]], np.float32)
    for _ in range(3):
        (both,) = (engine.call(Request("p", {"x": np.repeat(given, 2, axis=0)})).outputs.values(),)
        (y,) = (cast("np.ndarray", one) for one in both)
        np.testing.assert_array_equal(y, [[2, 2], [2, 2]])
        y[0] += 7
        np.testing.assert_array_equal(y[1], [2, 2])
    engine.close()


def test_a_cache_never_holds_more_than_its_bytes_and_forgets_what_was_unused_for_longest() -> None:
    cache = a_cache(2500)
    chosen = random.Random(1)
    for _ in range(500):
        number = chosen.randrange(30)
        cache.put(bytes([number]) * 32, [np.zeros(chosen.randrange(64), np.float32)])
        assert cache.held <= 2500
    cache = a_cache(3 * 600)
    one, two, three, four = (bytes([number]) * 32 for number in range(4))
    for key in (one, two, three):
        cache.put(key, [np.zeros(40, np.float32)])
    assert cache.get(one) is not None
    cache.put(four, [np.zeros(40, np.float32)])
    assert [cache.get(key) is not None for key in (one, two, three, four)] == [
        True, False, True, True,
    ]  # fmt: skip


def test_a_result_larger_than_the_cache_is_not_kept_and_drives_nothing_out() -> None:
    cache = a_cache(1000)
    cache.put(b"small", [np.zeros(4, np.float32)])
    cache.put(b"large", [np.zeros(4000, np.float32)])
    assert cache.get(b"large") is None
    assert cache.get(b"small") is not None


def test_bytes_are_those_of_all_that_is_kept_of_views_text_and_lists_too() -> None:
    cache = a_cache()

    def grows(value: Value) -> int:
        before = cache.held
        cache.put(str(before).encode(), [value])
        return cache.held - before

    batch = np.zeros((8, 1000), np.float32)
    assert 4000 < grows(batch[3]) < 5000
    assert grows("x" * 5000) > 5000
    assert grows(["x" * 5000, np.zeros(1000)]) > 13000
    assert grows(np.array(["x" * 5000], object)) > 5000


DIFFERENT: list[tuple[str, Value]] = [
    ("f32[N]", np.zeros(2, np.float32)),
    ("f32[N]", np.zeros(3, np.float32)),
    ("f32[N]", np.zeros((2, 1), np.float32)),
    ("f32[N]", np.zeros((1, 2), np.float32)),
    ("f32[N]", -np.zeros(2, np.float32)),
    ("i32[N]", np.zeros(2, np.int32)),
    ("f32", np.float32(0)),
    ("string", ""),
    ("string", "a"),
    ("bytes", b"a"),
    ("bytes", b"text 1 a"),
    ("list<string>", []),
    ("list<string>", ["a", "b"]),
    ("list<string>", ["ab"]),
    ("list<string>", ["a", "", "b"]),
    ("list<f32[N]>", [np.zeros(2, np.float32)]),
    ("list<f32[N]>", [np.zeros(1, np.float32), np.zeros(1, np.float32)]),
    ("string", None),
]


def test_values_that_differ_in_type_shape_or_content_have_different_keys() -> None:
    keys = [
        a_cache(params=(Field("x", kind(text)),)).keys([Rows.one(value)], 1)[0]
        for text, value in DIFFERENT
    ]
    assert len(set(keys)) == len(DIFFERENT)


def test_the_key_of_a_row_does_not_depend_on_how_its_column_is_kept() -> None:
    cache = a_cache(params=fields(x="f32", k="i64"))
    stacked = [Rows.stacked(np.array([1, 2], np.float32)), Constant(np.int64(3), 3, 2)]
    apart = [Rows.of([np.array(1, np.float32), np.float32(2)]), Rows.of([np.array(3), np.int64(3)])]
    assert cache.keys(stacked, 2) == cache.keys(apart, 2)
    across = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    other = a_cache(params=fields(x="f32[A, B]"))
    assert other.keys([Rows.one(across)], 1) == other.keys([Rows.one(across.copy("C"))], 1)


def test_threads_that_ask_for_the_same_rows_get_the_right_results_and_are_all_counted() -> None:
    engine = Engine(function_plan(2000), EngineConfig(workers=2))
    wrong: list[object] = []

    def asks(seed: int) -> None:
        chosen = random.Random(seed)
        for _ in range(200):
            number = float(chosen.randrange(8))
            if ask(engine, [number, number]).tolist() != [[2 * number, 2 * number]]:
                wrong.append(number)

    threads = [threading.Thread(target=asks, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = engine.metrics.stage("f")
    assert not wrong
    assert counts.cache_hits + counts.cache_misses == 800
    assert counts.rows == counts.cache_misses
    engine.close()


def test_a_stage_without_a_cache_is_bound_as_before() -> None:
    maker = PlanMaker()
    stage = maker.onnx("m", add_model(1.0, "N"), X, Y)
    maker.pipeline("p", X, Y, block([0], [call(stage, [0], [1])], [1]))
    engine = Engine(maker.plan(), EngineConfig(workers=1))
    whole, _ = engine.pipeline("p").whole
    assert whole.only is not None
    engine.close()


def test_each_engine_has_its_own_and_leaves_it_behind() -> None:
    plan = function_plan()
    for _ in range(2):
        engine = Engine(plan, EngineConfig(workers=1))
        ask(engine, [1, 1])
        assert engine.metrics.stage("f").cache_misses == 1
        engine.close()
