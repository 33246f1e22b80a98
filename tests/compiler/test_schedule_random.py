"""Random schedules: each has mistakes, or comes to a plan that keeps to its rules and its file."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from headrace.compiler.explain import explain_plan
from headrace.compiler.graph import Graph, Pads
from headrace.compiler.plan import Plan
from headrace.compiler.plan_file import read, to_bytes
from headrace.compiler.planner import plan_pipeline
from headrace.compiler.schedule import resolve_schedule
from headrace.compiler.segments import Segments
from headrace.compiler.verify_plan import verify_plan
from headrace.dsl import ast
from headrace.dsl.parse import parse
from headrace.dsl.source import Source
from headrace.dsl.types import DimVar, DType, TensorType
from tests.compiler.make_graphs import GraphMaker

F32, LONG = TensorType(DType.F32, (3,)), TensorType(DType.F32, (DimVar("L"),))


def graph() -> Graph:
    """Every kind of stage, in a pipeline of sequences."""
    make = GraphMaker()
    pads = (Pads(DimVar("L"), (0,)),)
    y = make.model("read", make.param("x", LONG), type=LONG, pads=pads)
    y = make.model("whole", y, type=F32, batches=False)
    y = make.model("clean", y, type=F32, backend="python")
    y = make.function("quads", y, type=F32)
    y = make.function("many", y, type=F32, batched=True, pure=True)
    return replace(make.graph(y), idle=5.0)


def braces(*keys: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Some of the keys between braces."""
    some = st.sets(st.integers(0, len(keys) - 1), max_size=3)
    return some.flatmap(
        lambda chosen: st.tuples(*(keys[index] for index in sorted(chosen))).map(
            lambda texts: f"{{ {', '.join(texts)} }}"
        )
    )


def one_of(*texts: str) -> st.SearchStrategy[str]:
    return st.sampled_from(texts)


LEVEL = st.tuples(one_of("level(1)", "level(2)", "level(4)"), one_of("{ size = 2 }", "{ }"))
QUEUE = braces(
    one_of("size = 4", "size = 0"),
    one_of("timeout = 5ms"),
    one_of("on_timeout = delay"),
    one_of("override = on"),
    LEVEL.map(" ".join),
).map(lambda text: f"queue {text}")
PRIORITY = one_of("priority { levels = 2 }", "priority { levels = 3, default = 1 }")
RESOURCES = one_of("resources { dsp = 1 }", "resources { dsp = 2 }")
STAGE = braces(
    one_of("batch { max = 8 }", "batch { max = 4, prefer = [2], pad = L }", "batch = off"),
    one_of("instances = 2", "instances = [2 * cpu]", "instances = [gpu(0)]"),
    one_of("device = sim", "device = gpu(0)"),
    QUEUE,
    PRIORITY,
    one_of("cache = 1MiB"),
    one_of("warmup = on", "warmup = [1]", "warmup = [1, 4]"),
    one_of("threads = 2"),
    one_of("cpus = [0, 1]"),
    RESOURCES,
    one_of("isolate = on", "isolate { memory = 1GiB }", "isolate { timeout = 1s }"),
)
SETTING = st.one_of(
    st.tuples(one_of("read", "whole", "clean", "quads", "many"), STAGE).map(" ".join),
    QUEUE,
    PRIORITY,
    RESOURCES,
    one_of("device = gpu(1)", "memory { cpu = 1GiB }"),
    one_of(
        "sequences { strategy = oldest, max = 4 }", "sequences { strategy = direct, slots = 2 }"
    ),
)


@given(st.lists(SETTING, max_size=4, unique_by=lambda text: text.split()[0]))
@settings(max_examples=300, deadline=None)
@pytest.mark.slow
def test_a_schedule_without_mistakes_comes_to_a_plan_that_runs(lines: list[str]) -> None:
    (schedule,) = parse(Source("a.pipe", "schedule p {\n" + "\n".join(lines) + "\n}")).items
    assert isinstance(schedule, ast.Schedule)
    found, mistakes = resolve_schedule(schedule, graph())
    event("mistakes" if mistakes else "none")
    if mistakes:
        return
    scheduled, segments = replace(graph(), settings=found), Segments()
    pipeline = plan_pipeline(scheduled, segments, Path()).pipeline
    plan = Plan(
        "0", (pipeline,), segments.all, (), (), (), segments.blobs, resources=found.resources
    )
    verify_plan(plan)
    assert read(to_bytes(plan)) == plan
    assert explain_plan(scheduled, (), Path())
