"""Schedules: how stages and pipelines are served beside their batches, and where a key of that is
refused because nothing would heed it."""

from dataclasses import replace

import pytest

from headrace.compiler.graph import Graph, Settings
from headrace.compiler.policies import Isolation, Priorities, Queueing, Sequencing, Service
from headrace.compiler.schedule import resolve_schedule
from headrace.dsl import ast
from headrace.dsl.diagnostic import Diagnostic
from headrace.dsl.format import format_module
from headrace.dsl.parse import parse
from headrace.dsl.source import Source
from headrace.dsl.types import DType, TensorType
from tests.compiler.make_graphs import GraphMaker

F32 = TensorType(DType.F32, (3,))


@pytest.fixture
def graph(make: GraphMaker) -> Graph:
    """`read` and `whole` are ONNX models, the second without a batch axis; `clean` is a model in
    Python, and `center` one of Triton's; `quads` and `many` are functions, the second pure and
    batched; an op."""
    y = make.model("read", make.op("image.warp", make.param("x", F32), type=F32), type=F32)
    y = make.model("whole", y, type=F32, batches=False)
    y = make.model("clean", y, type=F32, backend="python")
    y = make.model("center", y, type=F32, backend="triton_python")
    y = make.function("quads", y, type=F32)
    return make.graph(make.function("many", y, type=F32, batched=True, pure=True))


@pytest.fixture
def sequenced(graph: Graph) -> Graph:
    return replace(graph, idle=60.0)


def resolve(graph: Graph, text: str) -> tuple[Settings, tuple[Diagnostic, ...]]:
    (schedule,) = parse(Source("a.pipe", f'schedule p on "server" {{\n{text}\n}}\n')).items
    assert isinstance(schedule, ast.Schedule)
    return resolve_schedule(schedule, graph)


def settings(graph: Graph, text: str) -> Settings:
    found, diagnostics = resolve(graph, text)
    assert diagnostics == ()
    return found


EVERYTHING = """\
schedule p on "server" {
    read {
        batch { max = 16, wait = 2ms, prefer = [1, 16] }, instances = 2, cache = 64MiB
        warmup = [16, 1], threads = 1, cpus = [1, 0], resources { dsp = 1, bus = 2 }
        priority { levels = 3, default = 2 }
        queue {
            size = 64, timeout = 500ms, on_timeout = delay, override = on
            level(3) { size = 16, timeout = 50ms, on_timeout = reject }
            level(1) { size = 8 }
        }
    }
    clean { isolate { memory = 2GiB, timeout = 5s }, instances = 2 }
    many  { isolate = on, threads = 2, cpus = [0], cache = 1MiB, instances = [2 * cpu, cpu] }
    whole { warmup = on, instances = [gpu(1), 2 * gpu(1), gpu(1) * 3] }
    priority  { levels = 4, default = 3 }
    queue { level(4) { timeout = 1s } }
    resources { dsp = 1 }
    sequences { strategy = oldest, max = 10000, backlog = 256 }
}
"""


def test_every_key_reaches_the_settings(sequenced: Graph) -> None:
    found = settings(sequenced, EVERYTHING.partition("{\n")[2].rpartition("}")[0])
    read = found.stage("read")
    assert read.service == Service(
        Priorities(3, 2), 64 << 20, (1, 16), (("bus", 2), ("dsp", 1)), (0, 1), 1
    )
    levels = ((1, Queueing(8, 0.5, "delay", True)), (3, Queueing(16, 0.05, "reject", True)))
    assert read.queueing == Queueing(64, 0.5, "delay", True, levels)
    clean = found.stage("clean")
    assert (clean.service, clean.instances) == (Service(isolation=Isolation(2 << 30, 5.0)), 2)
    many = found.stage("many")
    assert many.service == Service(
        cache=1 << 20, cpus=(0,), threads=2, isolation=Isolation(None, None)
    )
    assert (many.instances, many.device) == (3, None)
    whole = found.stage("whole")
    assert (whole.instances, whole.device, whole.warmed) == (6, "gpu:1", True)
    assert found.priority == Priorities(4, 3)
    assert found.queueing == Queueing(1024, levels=((4, Queueing(1024, 1.0)),))
    assert found.resources == (("dsp", 1),)
    assert found.sequencing == Sequencing("oldest", 10000, 256)


def test_the_formatter_keeps_every_key() -> None:
    shown = format_module(parse(Source("a.pipe", EVERYTHING)))
    assert parse(Source("a.pipe", shown)) == parse(Source("a.pipe", EVERYTHING))
    assert format_module(parse(Source("a.pipe", shown))) == shown
    assert "level(3) { size = 16, timeout = 50ms, on_timeout = reject }" in shown


def test_requests_that_say_nothing_are_of_the_lowest_priority(graph: Graph) -> None:
    assert settings(graph, "priority { levels = 3 }").priority == Priorities(3, 3)


def test_a_stage_bounds_the_priorities_of_its_pipeline(graph: Graph) -> None:
    found = settings(
        graph,
        "read { batch { max = 2 }, queue { level(2) { size = 1 } } }\npriority { levels = 2 }",
    )
    assert found.stage("read").queueing == Queueing(1024, levels=((2, Queueing(1)),))


def test_sequences_may_have_places_of_a_batch(sequenced: Graph) -> None:
    found = settings(sequenced, "sequences { strategy = direct, slots = 8, backlog = 4 }")
    assert found.sequencing == Sequencing("direct", backlog=4, slots=8)


@pytest.mark.parametrize(
    "text",
    [
        "whole { instances = 2, queue { size = 1 }, priority { levels = 2 } }",
        "whole { resources { dsp = 1 }, queue { size = 1 } }",
        "clean { queue { size = 1 } }",
        "quads { isolate = on, queue { size = 1 } }",
        "queue { override = on, on_timeout = delay }",
        "read { device = sim, threads = 2 }",
        "clean { device = gpu(0), isolate = on, threads = 2 }",
        "clean { warmup = [1, 4] }",
        "clean { cache = 1MiB }\nmany { cache = 1MiB }\ndevice = sim",
    ],
)
def test_a_key_is_taken_where_it_is_heeded(graph: Graph, text: str) -> None:
    settings(graph, text)


BATCH = "give it `batch { max = 8 }`"
ISOLATE = "add `isolate = on`"
CASES = [
    # isolate
    ("read { isolate = on }", "HR403", "isolate", None),
    ("image.warp { isolate = on }", "HR403", "isolate", None),
    ("clean { isolate = yes }", "HR405", "yes", None),
    ("clean { isolate = off }", "HR403", "isolate", "leave it out"),
    ("quads { isolate = off }", "HR403", "isolate", "leave it out"),
    ("center { isolate = of }", "HR405", "of", "did you mean `off`?"),
    ("center { isolate = off, isolate { memory = 1GiB } }", "HR407", "isolate", None),
    ("center { isolate = off, threads = 2 }", "HR403", "threads", "leave out `isolate = off`"),
    ("center { isolate = off, cpus = [0] }", "HR403", "cpus", "leave out `isolate = off`"),
    ("clean { isolate { memroy = 1GiB } }", "HR402", "memroy", "did you mean `memory`?"),
    ("clean { isolate { timeout = 0ms } }", "HR406", "timeout = 0ms", None),
    ("clean { memory { cpu = 1GiB } }", "HR403", "memory", None),
    # instances
    ("quads { instances = 2 }", "HR403", "instances", ISOLATE),
    ("many { isolate = on, instances = [cpu, sim(1)] }", "HR403", "[cpu, sim(1)]", None),
    ("read { instances = [sim, sim(1)], device = sim }", "HR403", "device", None),
    ("read { instances = [dla(0)] }", "HR404", "dla(0)", None),
    ("read { instances = [] }", "HR406", "[]", None),
    ("read { instances = [0 * cpu] }", "HR406", "0", None),
    ("read { instances = [2] }", "HR405", "2", None),
    ("read { instances = [gpu(0)], device = gpu(0) }", "HR403", "device", None),
    ("many { isolate = on, instances = [sim] }", "HR403", "[sim]", "write `instances = 1`"),
    # cores
    ("clean { threads = 2 }", "HR403", "threads", ISOLATE),
    ("many { cpus = [0] }", "HR403", "cpus", ISOLATE),
    ("read { device = gpu(0), threads = 2 }", "HR403", "threads", None),
    ("read { cpus = [0] }\ndevice = gpu(0)", "HR403", "cpus", None),
    ("read { cpus = [] }", "HR406", "[]", None),
    ("read { cpus = [-1] }", "HR406", "-1", None),
    ("read { cpus = 0 }", "HR405", "0", None),
    ("threads = 2", "HR403", "threads", None),
    # cache and warm-up
    ("quads { cache = 1MiB }", "HR403", "cache", "declare it `pure` if it does not"),
    ("read { cache = 4 }", "HR405", "4", None),
    ("read { cache = 1MiB }\ndevice = sim", "HR403", "cache", None),
    ("read { cache = 1MiB, device = gpu(0) }", "HR403", "cache", None),
    ("many { warmup = on }", "HR403", "warmup", None),
    ("whole { warmup = [1, 2] }", "HR408", "[1, 2]", "write `[1]`"),
    ("read { batch { max = 8 }, warmup = [16] }", "HR406", "[16]", None),
    ("read { warmup = off }", "HR405", "off", None),
    ("read { warmup = 4 }", "HR405", "4", None),
    ("cache = 1MiB", "HR403", "cache", None),
    # priorities
    ("read { priority { levels = 2 } }", "HR403", "priority", BATCH),
    ("quads { priority { levels = 2 } }", "HR403", "priority", "give it `isolate = on`"),
    ("whole { queue { size = 2 } }", "HR403", "queue", "give it `instances = 1`"),
    ("priority { default = 1 }", "HR406", "priority", "add `levels = 2`"),
    ("priority { levels = 2, default = 3 }", "HR406", "3", None),
    ("priority { levls = 2 }", "HR402", "levls", "did you mean `levels`?"),
    ("priority = 2", "HR405", "priority = 2", None),
    ("levels = 2", "HR403", "levels", None),
    # queues
    ("queue { level(2) { size = 4 } }", "HR403", "level(2)", "add `priority { levels = 2 }`"),
    ("queue { level(3) { size = 4 } }\npriority { levels = 2 }", "HR406", "level(3)", None),
    ("queue { level(0) { size = 4 } }\npriority { levels = 2 }", "HR406", "level(0)", None),
    ("queue { level(2) { } }\npriority { levels = 2 }", "HR403", "level(2)", "add `size = 16`"),
    (
        "queue { levl(2) { size = 4 } }\npriority { levels = 2 }",
        *("HR402", "levl(2)", "did you mean `level(n)`?"),
    ),
    ("queue { level(2) { sise = 4 } }\npriority { levels = 2 }", "HR402", "sise", None),
    (
        "queue { level(2) { on_timeout = delay } }\npriority { levels = 2 }",
        *("HR403", "on_timeout", "add `timeout = 500ms`"),
    ),
    ("queue { level(2) { size = 4 } }\npriority { levels = 0 }", "HR406", "0", None),
    ("queue { override = off }", "HR405", "off", None),
    ("override = on", "HR403", "override", None),
    # resources
    ("read { resources { dsp = 3 } }\nresources { dsp = 2 }", "HR406", "2", None),
    ("read { resources { dsp = 1 } }\nresources { dps = 2, dsp = 1 }", "HR403", "dps", None),
    ("resources { dsp = 2 }", "HR403", "dsp", "give a stage `resources { }`"),
    ("read { resources { } }", "HR403", "resources", "add `dsp = 1`"),
    ("read { resources { dsp = 0 } }", "HR406", "0", None),
    ("read { resources { gpu(0) = 1 } }", "HR405", "gpu(0)", None),
    ("image.warp { resources { dsp = 1 } }", "HR403", "resources", None),
    # sequences
    ("read { sequences { slots = 2 } }", "HR403", "sequences", None),
    ("slots = 2", "HR403", "slots", None),
    # precision
    ("read { precision = f16 }", "HR405", "f16", "did you mean `fp16`?"),
    ("quads { precision = int8 }", "HR403", "precision", None),
    ("image.warp { precision = int8 }", "HR403", "precision", None),
]


def test_a_model_of_triton_has_processes_unless_it_is_said_otherwise(graph: Graph) -> None:
    for said, isolation, in_process in (
        ("instances = 2", None, False),
        ("isolate = on, threads = 2", Isolation(), False),
        ("isolate { memory = 1GiB, timeout = 2s }", Isolation(1 << 30, 2.0), False),
        ("isolate = off, instances = 2", None, True),
    ):
        service = settings(graph, f"center {{ {said} }}").stage("center").service
        assert (service.isolation, service.in_process) == (isolation, in_process)


@pytest.mark.parametrize(("text", "code", "at", "help"), CASES, ids=[case[0] for case in CASES])
def test_each_mistake_has_its_code_place_and_help(
    graph: Graph, text: str, code: str, at: str, help: str | None
) -> None:
    (found,) = resolve(graph, text)[1]
    assert (found.code, found.primary.span.text) == (code, at)
    assert help is None or found.help == help


def test_sequences_are_of_pipelines_that_have_some(graph: Graph) -> None:
    (found,) = resolve(graph, "sequences { strategy = oldest }")[1]
    assert (found.code, found.primary.span.text) == ("HR403", "sequences")


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("max = 2", "HR406", "sequences"),
        ("strategy = direct", "HR406", "sequences"),
        ("strategy = newest", "HR405", "newest"),
        ("strategy = direct, slots = 2, max = 4", "HR403", "max"),
        ("strategy = oldest, slots = 2", "HR403", "slots"),
        ("strategy = oldest, idle = 5s", "HR403", "idle"),
        ("strategy = oldest, backlog = 0", "HR406", "0"),
        ("stratgy = oldest", "HR402", "stratgy"),
    ],
)
def test_each_mistake_in_sequences_has_its_code_and_place(
    sequenced: Graph, text: str, code: str, at: str
) -> None:
    found = resolve(sequenced, f"sequences {{ {text} }}")[1]
    assert [(one.code, one.primary.span.text) for one in found] == [(code, at)]


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("clean { batch { max = 8 }, instances = 2 }", "HR406", "instances = 2"),
        ("clean { batch { max = 8 }, cache = 1MiB }", "HR403", "cache = 1MiB"),
        ("read { batch { max = 4 } }", "HR406", "max = 4"),
    ],
)
def test_places_of_sequences_want_one_object_that_is_always_asked_for_all_of_them(
    sequenced: Graph, text: str, code: str, at: str
) -> None:
    (found,) = resolve(sequenced, f"{text}\nsequences {{ strategy = direct, slots = 8 }}")[1]
    assert (found.code, found.primary.span.text) == (code, at)
    assert resolve(sequenced, f"{text}\nsequences {{ strategy = oldest }}")[1] == ()


@pytest.mark.parametrize(
    "text",
    [
        "read { batch { max = 8 }, instances = 2, cache = 1MiB }",
        "clean { instances = 2, cache = 1MiB }",
        "clean { batch { max = 9 } }",
    ],
)
def test_what_keeps_nothing_by_rows_may_have_instances_and_a_cache(
    sequenced: Graph, text: str
) -> None:
    assert resolve(sequenced, f"{text}\nsequences {{ strategy = direct, slots = 8 }}")[1] == ()
