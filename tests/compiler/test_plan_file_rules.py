"""What every plan keeps to, so that a file whose plan does not is malformed."""

from dataclasses import replace

import pytest

from headrace.compiler.plan import (
    Isolation,
    Plan,
    Priorities,
    Queueing,
    Sequencing,
    Service,
)
from headrace.compiler.plan_file import (
    to_bytes,
)
from tests.compiler.plan_files import MODEL, digest_of, make_plan, rebuilt, refusal


def with_pipeline(**changes: object) -> Plan:
    plan = make_plan()
    return replace(plan, pipelines=(replace(plan.pipelines[0], **changes),))


def with_body(**changes: object) -> Plan:
    return with_pipeline(body=replace(make_plan().pipelines[0].body, **changes))


def with_segment(number: int = 0, **changes: object) -> Plan:
    """`segments[0]` is an ONNX model of three priorities, `segments[1]` a Python function."""
    plan = make_plan()
    segments = list(plan.segments)
    segments[number] = replace(segments[number], **changes)
    return replace(plan, segments=tuple(segments))


def bounded(*levels: int) -> Queueing:
    return Queueing(1, levels=tuple((level, Queueing(1)) for level in levels))


BODY = make_plan().pipelines[0].body


FIRST, CALL, *_ = BODY.steps


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (with_body(steps=(replace(FIRST, source=8), *BODY.steps[1:])), "uses a slot without value"),
        (with_body(steps=(replace(FIRST, target=9), *BODY.steps[1:])), "there is no slot 9"),
        (with_body(steps=(replace(FIRST, target=1), *BODY.steps[1:])), "given a value twice"),
        (with_body(steps=(FIRST, replace(CALL, segment=3), *BODY.steps[2:])), "no segment 3"),
        (with_body(steps=(FIRST, replace(CALL, segment=-1), *BODY.steps[2:])), "no segment -1"),
        (with_body(steps=(FIRST, replace(CALL, inputs=(2, 2)), *BODY.steps[2:])), "does not fit"),
        (with_body(results=(6,)), "results and slots differ"),
        (with_body(results=(6, 0)), "a result has no value"),
        (with_body(last_uses=((0,),)), "steps and last uses differ"),
        (with_body(last_uses=((1, 0), *BODY.last_uses[1:])), "uses a slot without value"),
        (with_body(captures=((0, 8),)), "the outermost block captures"),
        (replace(make_plan(), blobs=make_plan().blobs[1:]), "has no model"),
        (replace(make_plan(), blobs=make_plan().blobs[:1]), "has no source"),
        (replace(make_plan(), blobs=((digest_of(MODEL), b"x"),)), "is another"),
        (replace(make_plan(), pipelines=make_plan().pipelines * 2), "have one name"),
        (with_segment(queueing=Queueing(0)), "a queue of no places"),
        (with_segment(queueing=bounded(4)), "a priority that there is not"),
        (with_segment(queueing=bounded(2, 2)), "bounds a priority twice"),
        (with_segment(queueing=bounded(0)), "a priority below 1"),
        (with_segment(queueing=Queueing(1, levels=((1, bounded(1)),))), "levels within a level"),
        (with_segment(service=Service(Priorities(2, 3))), "a default priority"),
        (with_segment(service=Service(cache=0)), "a cache of no bytes"),
        (with_segment(service=Service(warmup=(4, 1))), "warmed up with no rows"),
        (with_segment(service=Service(cpus=(-1,))), "a core that there is not"),
        (with_segment(service=Service(threads=0)), "has no thread"),
        (with_segment(service=Service(resources=(("dsp", 3),))), "needs more 'dsp' than there is"),
        (with_segment(service=Service(resources=(("a", 1), ("a", 1)))), "names a resource twice"),
        (with_segment(service=Service(isolation=Isolation())), "runs no Python"),
        (with_segment(1, service=Service(isolation=Isolation(timeout=0.0))), "has no time"),
        (replace(make_plan(), resources=(("dsp", 0),)), "has none of a resource"),
        (with_pipeline(priority=Priorities(2, 0)), "a default priority"),
        (with_pipeline(queueing=bounded(3)), "a priority that there is not"),
        (with_pipeline(idle=None), "not per sequence puts sequences together"),
        (with_pipeline(sequencing=Sequencing("direct", most=4)), "in no way that there is"),
        (with_pipeline(sequencing=Sequencing("oldest", backlog=0)), "in no way that there is"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_plan_that_could_not_run_is_malformed(plan: Plan, reason: str) -> None:
    error = refusal(to_bytes(plan))
    assert error.code == "HR414"
    assert reason in error.message


def test_blocks_that_nest_a_thousand_deep_are_refused() -> None:
    arm = '{"BranchStep":%s}'
    deep = "1"
    for _ in range(1000):
        deep = arm % f'{{"then":{deep}}}'
    content = rebuilt([("plan.json", deep.encode())])
    assert refusal(content).code == "HR414"
