"""Whose the executions of stages are, as callers count models.

A pipeline that is one model, as each of a Triton repository, has that model's executions: a batch
in which requests met is one. One of more stages is executed once for each request. What an ensemble
asks of its members counts for these too.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...compiler.plan import CallStep, ModelSegment, PipelinePlan, Plan, PythonSegment
from ...compiler.plan_walk import segments_of, steps_of
from ..protocols.models import Described, ModelKey


@dataclass(frozen=True, slots=True)
class Attribution:
    """Of a pipeline: the stages that are the model that it is, none where it is several; the models
    that `members` are, by stage; and how often each ensemble is `nested` in it. Requests are kept
    where it is `described`, else rows. A `cached` ensemble keeps what all of its members give, each
    so many times a request."""

    own: frozenset[str] = frozenset()
    members: Mapping[str, tuple[ModelKey, ...]] = field(
        default_factory=dict[str, tuple[ModelKey, ...]]
    )
    nested: Mapping[ModelKey, int] = field(default_factory=dict[ModelKey, int])
    described: bool = False
    cached: Mapping[str, int] = field(default_factory=dict[str, int])


def attribute(plan: Plan, described: Mapping[str, Described]) -> Mapping[str, Attribution]:
    """Return whose executions are whose, by pipeline."""
    return {
        one.name: _described(plan, one, described[one.name])
        if one.name in described
        else Attribution(_only_model(plan, one))
        for one in plan.pipelines
    }


def _described(plan: Plan, pipeline: PipelinePlan, one: Described) -> Attribution:
    called = [plan.segments[index] for index in segments_of(pipeline.body)]
    stages = {
        segment.name: tuple(one.models[name] for name in segment.members if name in one.models)
        for segment in called
        if isinstance(segment, ModelSegment)
    }
    stages = {name: models for name, models in stages.items() if models}
    if one.is_ensemble:
        steps = [one for one in steps_of(pipeline.body) if isinstance(one, CallStep)]
        times = Counter(plan.segments[step.segment].name for step in steps)
        keeps = (one.config.get("response_cache") or {}).get("enable")
        cached = {name: times[name] for name in stages} if keeps else dict[str, int]()
        return Attribution(frozenset(), stages, one.nested, described=True, cached=cached)
    return Attribution(frozenset(stages), described=True)


def _only_model(plan: Plan, pipeline: PipelinePlan) -> frozenset[str]:
    """Return the stage of the one model or function that a pipeline always runs, where that is all
    that it has and no other pipeline has it too."""
    called = [
        index
        for index in segments_of(pipeline.body)
        if isinstance(plan.segments[index], ModelSegment | PythonSegment)
    ]
    steps = [one for one in pipeline.body.steps if isinstance(one, CallStep)]
    at_top = [one.segment for one in steps if one.segment in called]
    if len(set(called)) != 1 or at_top != called[:1] or pipeline.stream:
        return frozenset()
    others = (one for one in plan.pipelines if one is not pipeline)
    if any(called[0] in segments_of(one.body) for one in others):
        return frozenset()
    return frozenset({plan.segments[called[0]].name})
