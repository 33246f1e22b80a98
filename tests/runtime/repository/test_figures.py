"""Adding up what several have counted, in a form that crosses from one process to another."""

import msgspec

from headrace.runtime.custom_metrics import Cell, Family, Kind, Labels
from headrace.runtime.metrics import PipelineCounts, Snapshot, StageCounts
from headrace.runtime.repository.counts import Totals
from headrace.runtime.repository.figures import Figures, Loaded, left_behind, summed
from headrace.runtime.repository.model_counts import ModelCounts
from headrace.runtime.repository.shadow import ShadowCounts

KEY = ("p", "1")
HERE: Labels = (("where", "here"),)


def counted(times: int, *, since: float = 10.0, bounds: tuple[float, ...] = (1.0,)) -> Figures:
    """Figures of which all are so many, but the moments."""
    pipeline = PipelineCounts(
        "p",
        times,
        0.5 * times,
        failures={"failed": times},
        pending=times,
        levels={1: times},
        fallbacks={("a.pipe:1", "failed"): times},
        last=float(times),
        kept={("s", 2): times},
    )
    stage = StageCounts("s", times, sizes={4: times}, recent=(float(times),), waiting=times)
    families = (
        Family("made_total", "", Kind.COUNTER, {HERE: Cell(times)}),
        Family("level", "", Kind.GAUGE, {HERE: Cell(times)}),
        Family("sizes", "", Kind.HISTOGRAM, {HERE: Cell(times, bounds, [times, 0])}),
    )
    totals = Totals({KEY: pipeline}, {("a", "s"): stage}, {KEY: ModelCounts(times, batches={4: 1})})
    loaded = {("a", "1"): Loaded(since, Snapshot((pipeline,), (stage,)))}
    return Figures(totals, {KEY: ShadowCounts(copied=times)}, families, loaded)


def test_counts_and_gauges_add_up() -> None:
    both = summed([counted(3, since=9.0), counted(4)])
    pipeline, stage = both.totals.pipelines[KEY], both.totals.stages["a", "s"]
    assert (pipeline.successes, pipeline.duration_seconds, pipeline.pending) == (7, 3.5, 7)
    assert (pipeline.failures, pipeline.levels, pipeline.kept) == (
        {"failed": 7},
        {1: 7},
        {("s", 2): 7},
    )
    assert (stage.executions, stage.sizes, stage.waiting) == (7, {4: 7}, 7)
    assert both.totals.models[KEY] == ModelCounts(7, batches={4: 2})
    assert both.shadows[KEY] == ShadowCounts(copied=7)
    assert [family.cells[HERE].value for family in both.families] == [7, 7, 7]
    assert both.families[2].cells[HERE].counts == [7, 0]


def test_the_last_answer_is_the_latest_and_the_age_that_of_the_oldest() -> None:
    both = summed([counted(4, since=9.0), counted(3)])
    assert both.totals.pipelines[KEY].last == 4.0
    assert both.loaded["a", "1"].since == 9.0


def test_the_latest_times_of_all_are_looked_at_together() -> None:
    both = summed([counted(3), counted(4)])
    assert both.loaded["a", "1"].snapshot.stage("s").recent == (3.0, 4.0)


def test_what_only_one_has_counted_is_kept() -> None:
    other = Figures(
        Totals({("q", "1"): PipelineCounts("q", 5)}, {}, {}),
        {},
        (Family("own", "", Kind.COUNTER, {(): Cell(5.0)}),),
        {("b", "1"): Loaded(1.0, Snapshot((), ()))},
    )
    both = summed([counted(3), other])
    assert {key[0]: one.successes for key, one in both.totals.pipelines.items()} == {"p": 3, "q": 5}
    assert [family.name for family in both.families] == ["made_total", "level", "sizes", "own"]
    assert set(both.loaded) == {("a", "1"), ("b", "1")}


def test_histograms_of_other_bounds_are_not_mixed() -> None:
    both = summed([counted(3), counted(4, bounds=(1.0, 2.0))])
    assert both.families[2].cells[HERE] == Cell(3, (1.0,), [3, 0])


def test_what_has_ended_leaves_counts_and_nothing_of_the_moment() -> None:
    rest = left_behind(counted(3))
    pipeline, stage = rest.totals.pipelines[KEY], rest.totals.stages["a", "s"]
    assert (pipeline.successes, pipeline.pending, pipeline.levels) == (3, 0, {})
    assert (stage.executions, stage.waiting, stage.recent) == (3, 0, ())
    assert rest.loaded["a", "1"].snapshot == Snapshot((pipeline,), (stage,))
    assert [family.name for family in rest.families] == ["made_total", "sizes"]


def test_figures_cross_to_another_process_as_they_are() -> None:
    sent = summed([counted(3), counted(4)])
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=Figures) == sent
