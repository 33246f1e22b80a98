"""Where models in a row are one stage, and where they are not."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.compiler.plan import (
    Batching,
    Block,
    CallStep,
    ModelSegment,
    PipelinePlan,
    Queueing,
    Sequencing,
)
from headrace.compiler.policies import Priorities
from headrace.runtime.chains import Chain, chained, chains
from headrace.runtime.prune import prune
from tests.runtime.plans import PlanMaker, block, call, fields

F32 = fields(x="f32")
ONE = [call(0, [0], [1]), call(1, [1], [2]), call(2, [2], [3])]
"""Each of what the one before it gives."""


def segments(count: int = 3) -> list[ModelSegment]:
    """Return models that are told of their requests, and let up to eight rows meet."""
    maker = PlanMaker()
    for name in "abcde"[:count]:
        maker.onnx(name, b"", F32, fields(y="f32"), batching=Batching(8))
    found = [one for one in maker.segments if isinstance(one, ModelSegment)]
    return [replace(one, told=True) for one in found]


def pipeline(steps: list[CallStep], results: list[int], **more: Any) -> PipelinePlan:  # Any: fields
    maker = PlanMaker()
    maker.pipeline("p", F32, fields(y="f32"), block([0], steps, results), batch=8)
    (made,) = maker.pipelines
    return replace(made, **more)


def found(
    steps: list[CallStep],
    models: list[ModelSegment] | None = None,
    results: list[int] | None = None,
    **more: Any,  # of a pipeline
) -> list[Chain]:
    made = pipeline(steps, results or [steps[-1].outputs[-1]], **more)
    return list(chains(made, models or segments(), lambda _: True))


def numbers(chain: Chain) -> list[int]:
    return [one.segment for one in chain.calls]


def test_models_in_a_row_are_one() -> None:
    (chain,) = found(ONE)
    assert (numbers(chain), chain.inputs, chain.outputs) == ([0, 1, 2], (0,), (3,))


def test_what_is_a_result_between_them_is_given_too() -> None:
    (chain,) = found(ONE, results=[2, 3])
    assert chain.outputs == (2, 3)


def test_what_others_take_beside_it_is_taken_first() -> None:
    steps = [call(0, [0], [1]), call(1, [1, 0], [2]), call(2, [2], [3])]
    (chain,) = found(steps)
    assert (numbers(chain), chain.inputs) == ([0, 1, 2], (0,))


def test_those_that_might_run_at_once_are_none() -> None:
    assert found([call(0, [0], [1]), call(1, [0], [2])], results=[1, 2]) == []


def test_one_that_needs_only_an_earlier_one_begins_another() -> None:
    steps = [call(0, [0], [1]), call(1, [1], [2]), call(2, [1], [3]), call(3, [3], [4])]
    first, second = found(steps, segments(4), [2, 4])
    assert (numbers(first), first.outputs) == ([0, 1], (1, 2))
    assert (numbers(second), second.inputs) == ([2, 3], (1,))


def changed(at: int, **more: Any) -> list[ModelSegment]:  # Any: fields of a segment
    models = segments()
    models[at] = replace(models[at], **more)
    return models


def served(at: int, **more: Any) -> list[ModelSegment]:  # Any: fields of its service
    return changed(at, service=replace(segments()[at].service, **more))


@pytest.mark.parametrize(
    "models",
    [
        pytest.param(changed(2, batching=Batching(4)), id="takes fewer rows"),
        pytest.param(changed(2, batching=Batching(8, 0.1)), id="waits"),
        pytest.param(changed(2, batching=Batching(8, 0.0, (4,))), id="prefers"),
        pytest.param(changed(2, batching=None, group=8), id="lets none meet"),
        pytest.param(changed(2, queueing=Queueing(3)), id="bounds its queue"),
        pytest.param(changed(2, input_axes=(None,)), id="takes something once for all rows"),
        pytest.param(served(2, priority=Priorities(2, 1)), id="has levels"),
        pytest.param(served(2, resources=(("r", 1),)), id="shares a resource"),
        pytest.param(served(2, cache=1 << 20), id="keeps results"),
    ],
)
def test_one_whose_queue_decides_something_has_it(models: list[ModelSegment]) -> None:
    (chain,) = found(ONE, models)
    assert numbers(chain) == [0, 1]


@pytest.mark.parametrize(
    "models",
    [
        pytest.param(changed(0, batching=Batching(8, 0.1, (4,))), id="waits"),
        pytest.param(changed(0, queueing=Queueing(3)), id="bounds its queue"),
        pytest.param(served(0, priority=Priorities(2, 1)), id="has levels"),
        pytest.param(changed(0, batching=Batching(4)), id="takes fewer rows"),
    ],
)
def test_the_queue_of_the_first_decides_for_all(models: list[ModelSegment]) -> None:
    (chain,) = found(ONE, models)
    assert numbers(chain) == [0, 1, 2]


def test_requests_that_do_not_meet_go_through_one_by_one() -> None:
    models = [replace(one, batching=None, group=8) for one in segments()]
    (chain,) = found(ONE, models)
    assert numbers(chain) == [0, 1, 2]


def test_models_that_are_not_told_of_requests_are_none() -> None:
    models = [replace(one, told=False) for one in segments()]
    assert found(ONE, models) == []
    models[1] = replace(models[1], told=True)
    assert len(found(ONE, models)) == 1


def test_a_stage_that_cannot_parts_them() -> None:
    made = pipeline(ONE, [3])
    assert list(chains(made, segments(), lambda index: index != 1)) == []


@pytest.mark.parametrize("more", [{"stream": True}, {"sequencing": Sequencing("direct", slots=2)}])
def test_a_stream_or_a_sequence_has_none(more: dict[str, Any]) -> None:  # Any: fields
    assert found(ONE, **more) == []


def rewritten(body: Block, chain: Chain) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    steps = chained(body, [(chain, 9)]).steps
    calls = [one for one in steps if isinstance(one, CallStep)]
    assert len(calls) == len(steps)
    return [(one.segment, one.inputs, one.outputs) for one in calls]


def test_a_chain_is_one_call_of_a_block_that_frees_what_its_calls_freed() -> None:
    body = replace(pipeline(ONE, [3]).body, last_uses=((0,), (1,), (2,)))
    (chain,) = found(ONE)
    assert rewritten(body, chain) == [(9, (0,), (3,))]
    assert chained(body, [(chain, 9)]).last_uses == ((0, 1, 2),)


def test_what_is_cut_from_a_block_is_no_chain_any_more() -> None:
    steps = [*ONE[:2], call(2, [0], [3])]
    body = pipeline(steps, [2, 3]).body
    (chain,) = found(steps, results=[2, 3])
    assert numbers(chain) == [0, 1]
    assert rewritten(prune(body, (0,)), chain) == [(9, (0,), (2,))]
    assert rewritten(prune(body, (1,)), chain) == [(2, (0,), (3,))]
