"""Profiles: their file, what they decide, and how explain tells it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.compiler.batch_points import BatchPoint, batch_points
from headrace.compiler.explain import explain_plan
from headrace.compiler.graph import Graph, ModelCall, Settings, StageSettings
from headrace.compiler.policies import Batching
from headrace.compiler.profile import Machine, ModelTimes, Profile, StageTime, Timing
from headrace.compiler.profile_file import ProfileError, read, to_json, write
from headrace.dsl.types import DType, TensorType
from tests.compiler.make_graphs import GraphMaker

FACE = TensorType(DType.F32, (3,))
MACHINE = Machine("Some CPU", 2, "onnxruntime 1", 1)
TIMES = ModelTimes("ab" * 32, "read", "cpu", ("x f32[3]",), (Timing(1, 0.25), Timing(2, 0.3)))
PROFILE = Profile(MACHINE, (TIMES,), (StageTime("p", "read", 12, 0.125),))


def made(
    make: GraphMaker,
    *seconds: float,
    batches: bool = True,
    batch: int | None = None,
    settings: Settings | None = None,
) -> Graph:
    """Return a graph of one model that took `seconds` for 1, 2, 4, ... rows."""
    graph = make.graph(
        make.model("read", make.param("x", FACE), type=FACE, batches=batches),
        batch=batch,
        settings=settings,
    )
    content = graph.model("read").content
    assert content is not None
    timings = tuple(Timing(1 << power, one) for power, one in enumerate(seconds))
    times = replace(TIMES, model=content.digest, timings=timings)
    return replace(graph, profile=Profile(MACHINE, (times,)))


def decided(graph: Graph) -> BatchPoint:
    (node,) = [node for node in graph.body.nodes if isinstance(node.kind, ModelCall)]
    return batch_points(graph)[node]


def test_rows_meet_where_a_batch_was_found_to_pay(make: GraphMaker) -> None:
    point = decided(made(make, 0.010, 0.018, 0.024, 0.064))
    assert point.batching == Batching(4, 0.0, ())
    assert point.group == 4
    assert point.why == "batch up to 4, no wait (measured 1.67x at 4)"


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        ((0.010, 0.019, 0.040), "batch off (measured 1.05x at 2)"),
        ((0.010, 0.022, 0.041), "batch off (measured 0.98x at 4)"),
        ((0.010,), "batch off (measured alone only)"),
    ],
)
def test_rows_do_not_meet_where_little_or_nothing_is_gained(
    make: GraphMaker, seconds: tuple[float, ...], why: str
) -> None:
    assert decided(made(make, *seconds)) == BatchPoint(None, 1, why)
    assert decided(made(GraphMaker(), *seconds, batch=8)).group == 1


def test_what_saves_less_than_a_queue_costs_gets_none(make: GraphMaker) -> None:
    point = decided(made(make, 0.000_020, 0.000_024))
    assert (point.batching, point.group) == (None, 2)
    assert point.why == (
        "rows of a request together, up to 2 (measured 1.67x at 2; 8 us a row do not pay for a"
        " queue)"
    )


def test_a_schedule_holds_whatever_was_measured(make: GraphMaker) -> None:
    asked = Settings("s", (("read", StageSettings(batching=Batching(16, 0.002))),))
    point = decided(made(make, 0.01, 0.03, settings=asked))
    assert point.batching == Batching(16, 0.002, ())
    assert point.why == "batch up to 16, wait 2 ms (schedule 's', measured 0.67x at 2)"
    off = Settings("s", (("read", StageSettings(batching_off=True)),))
    point = decided(made(GraphMaker(), 0.01, 0.01, settings=off))
    assert point == BatchPoint(None, 1, "batch off (schedule 's', measured 2.00x at 2)")


def test_figures_of_another_model_or_device_decide_nothing(make: GraphMaker) -> None:
    graph = made(make, 0.01, 0.01)
    assert graph.profile is not None
    (times,) = graph.profile.models
    for other in (replace(times, model="00" * 32), replace(times, device="gpu:0")):
        point = decided(replace(graph, profile=Profile(MACHINE, (other,))))
        assert point.why.startswith("batch off (no schedule asks for it")
    assert decided(made(GraphMaker(), 0.01, 0.01, batches=False)).batching is None


def test_a_deadline_is_split_by_what_stages_took(make: GraphMaker) -> None:
    graph = replace(made(make, 0.01, 0.03), deadline=0.2)
    assert graph.profile is not None
    last = explain_plan(graph, (), Path()).splitlines()[-1]
    assert last == "deadline 200 ms, measured 10 ms · read 200 ms"
    took = (
        StageTime("p", "read", 12, 0.3),
        StageTime("p", "core.any", 12, 0.001),
        StageTime("p", "find", 1, 0.1),
        StageTime("q", "read", 1, 9.0),
    )
    graph = replace(graph, profile=replace(graph.profile, stages=took))
    last = explain_plan(graph, (), Path()).splitlines()[-1]
    assert last == (
        "deadline 200 ms, measured 401 ms (over it) · read 150 ms · find 49.9 ms · others 499 us"
    )
    without = replace(graph, deadline=None)
    assert not explain_plan(without, (), Path()).splitlines()[-1].startswith("deadline")


# ---- the file


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    write(PROFILE, tmp_path / "a.profile")
    assert read(tmp_path / "a.profile") == PROFILE
    assert to_json(read(tmp_path / "a.profile")) == to_json(PROFILE)


def _changed(change: Callable[[dict[str, object]], object]) -> str:
    whole = json.loads(to_json(PROFILE))
    change(whole)
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a profile"),
        (_changed(lambda whole: whole.update(format="headrace profile 2")), "is not a profile"),
        (_changed(lambda whole: whole.update(profile=3)), "wants a Profile with machine"),
        (to_json(replace(PROFILE, models=(replace(TIMES, timings=()),))), "no time of one row"),
        (to_json(PROFILE).replace("0.3", "-0.3"), "took no time"),
        (to_json(PROFILE).replace("0.3", "NaN"), "took no time"),
        (to_json(PROFILE).replace('"rows": 2', '"rows": 1'), "rising rows"),
        (to_json(PROFILE).replace("0.125", "0.0"), "took no time"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_a_file_that_is_no_profile_is_refused_with_a_reason(
    tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "a.profile").write_text(text)
    with pytest.raises(ProfileError) as caught:
        read(tmp_path / "a.profile")
    assert caught.value.code == "HR419"
    assert why in caught.value.message


def test_a_file_that_cannot_be_read_is_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "b.profile").write_bytes(b"\xff")
    for name, why in (("a.profile", "cannot be read"), ("b.profile", "is not text")):
        with pytest.raises(ProfileError, match=why):
            read(tmp_path / name)
