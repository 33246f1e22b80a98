"""Threads are divided so that stages that run at one time never want more than the cores."""

import itertools
import os
from dataclasses import replace

import numpy as np
import pytest

from headrace.compiler.plan import ModelSegment, OpSegment, Segment, Service
from headrace.dsl.pages import page
from headrace.runtime.division import Share, divide, runs_at_once
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.load_error import LoadError
from headrace.runtime.onnx_session import pinned
from headrace.runtime.request import Request
from tests.runtime.plans import HERE, PlanMaker, add_model, block, call, fields

X, Y = fields(x="f32"), fields(y="f32")


def models(*instances: int | None, **service: object) -> list[Segment]:
    maker = PlanMaker()
    for number, count in enumerate(instances):
        maker.onnx(f"m{number}", add_model(float(number)), X, Y, instances=count)
    given = Service(**service)  # type: ignore[arg-type]
    return [replace(one, service=given) for one in maker.segments if isinstance(one, ModelSegment)]


def most_threads(segments: list[Segment], shares: list[Share | None], workers: int) -> int:
    """The most threads that any stages that can run at one time take: each run its own, and each
    session of those those that help."""
    bounds = [
        workers if isinstance(one, OpSegment) or one.instances is None else one.instances
        for one in segments
    ]
    most = 0
    for runs in itertools.product(*(range(min(bound, workers) + 1) for bound in bounds)):
        if sum(runs) <= workers:
            helpers = [
                share.threads - 1
                for count, share in zip(runs, shares, strict=True)
                if count and share
            ]
            most = max(most, sum(runs) + sum(helpers))
    return most


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 8, 12])
@pytest.mark.parametrize("workers", [1, 2, 4, 8])
@pytest.mark.parametrize("instances", [(None,), (1,), (1, 1), (2, None), (1, 2, 3), (4, 4)])
def test_stages_that_run_at_one_time_never_take_more_threads_than_there_are_cores(
    cores: int, workers: int, instances: tuple[int | None, ...]
) -> None:
    workers = min(workers, cores)  # who asks for more has more
    for segments in (models(*instances), [*models(*instances), OpSegment("o", "o", (), HERE)]):
        shares = divide(segments, cores, workers)
        assert most_threads(segments, shares, workers) <= cores


def test_cores_that_no_worker_needs_help_the_models() -> None:
    def threads(segments: list[Segment], cores: int, workers: int) -> list[int]:
        return [share.threads for share in divide(segments, cores, workers) if share is not None]

    assert threads(models(None), cores=8, workers=8) == [1]
    assert threads(models(None), cores=8, workers=1) == [8]
    assert threads(models(None), cores=8, workers=2) == [7]
    assert threads(models(None, None), cores=8, workers=2) == [4, 4]
    assert threads(models(1), cores=8, workers=8) == [8]
    assert runs_at_once(models(1, 2), workers=8) == 3


def test_a_schedule_may_say_how_many_threads_a_run_takes_and_where() -> None:
    (share,) = divide(models(None, threads=3), 8, 8)
    assert str(share) == "threads 3 of 8 cores"
    (share,) = divide(models(None, cpus=(4, 5)), 8, 1)
    assert str(share) == "threads 2 of 8 cores, on 4, 5"


def test_threads_spin_only_where_one_session_has_the_cores_for_itself() -> None:
    def spins(segments: list[Segment], workers: int) -> list[bool]:
        return [share.spin for share in divide(segments, 8, workers) if share is not None]

    assert spins(models(None), 1) == [True]
    assert spins(models(None), 2) == [False]
    assert spins(models(None, None), 1) == [False, False]


def test_what_is_pinned_runs_on_its_cores_and_its_thread_goes_back() -> None:
    before = os.sched_getaffinity(0)
    (core, *_) = sorted(before)
    assert pinned([core], os.sched_getaffinity, 0) == {core}
    assert os.sched_getaffinity(0) == before
    with pytest.raises(ZeroDivisionError):
        pinned([core], (1).__floordiv__, 0)
    assert os.sched_getaffinity(0) == before


def pinned_plan(*cpus: int, threads: int | None = None) -> PlanMaker:
    maker = PlanMaker()
    stage = maker.onnx("m", add_model(1.0), X, Y)
    maker.pipeline("p", X, Y, block([0], [call(stage, [0], [1])], [1]))
    (segment,) = maker.segments
    assert isinstance(segment, ModelSegment)
    maker.segments[0] = replace(segment, service=Service(cpus=cpus, threads=threads))
    return maker


def test_a_pinned_model_answers_and_its_own_threads_are_pinned_too() -> None:
    cores = sorted(os.sched_getaffinity(0))
    engine = Engine(pinned_plan(*cores, threads=2).plan(), EngineConfig(workers=1))
    try:
        assert str(engine.shares["m"]).startswith("threads 2 of ")
        assert float(np.asarray(engine.call(Request("p", {"x": 1.0})).outputs["y"])) == 2  # type: ignore[dict-item]
    finally:
        engine.close()


def test_a_core_that_this_process_may_not_use_is_refused_by_its_number() -> None:
    cores = os.sched_getaffinity(0)
    absent = max(cores) + 7
    with pytest.raises(LoadError, match=rf"stage `m`.*`cpus` name {absent}, and this") as caught:
        Engine(pinned_plan(min(cores), absent).plan())
    assert caught.value.code == "HR507"
    assert page("HR507").title
