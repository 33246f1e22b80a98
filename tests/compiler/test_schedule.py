"""Schedules: what they say reaches the settings, and nothing in one is accepted and ignored."""

import pytest

from headrace.compiler.choose_schedule import (
    ScheduleError,
    check_schedules,
    check_wanted,
    choose_schedule,
)
from headrace.compiler.graph import (
    Graph,
    Pads,
    Settings,
    StageSettings,
)
from headrace.compiler.policies import Batching, Padding, Queueing
from headrace.compiler.schedule import resolve_schedule
from headrace.dsl import ast
from headrace.dsl.diagnostic import Diagnostic
from headrace.dsl.parse import parse
from headrace.dsl.source import Source
from headrace.dsl.types import DimVar, DType, ListType, TensorType
from tests.compiler.make_graphs import GraphMaker

F32 = TensorType(DType.F32, (3,))


@pytest.fixture
def graph(make: GraphMaker) -> Graph:
    """`angle` in a loop, `read` with a batch axis, `whole` without, two functions, an op."""
    x, xs = make.param("x", F32), make.param("xs", ListType(F32))
    make.each(xs, F32, lambda item: [make.model("angle", item, type=F32)], ListType(F32))
    y = make.model("read", make.op("image.warp", x, type=F32), type=F32)
    y = make.model("whole", y, type=F32, batches=False)
    ids = make.param("ids", TensorType(DType.I64, (DimVar("L"),)))
    make.model("padded", ids, type=F32, pads=(Pads(DimVar("L"), (0,)),))
    y = make.function("quads", y, type=F32)
    return make.graph(make.function("many", y, type=F32, batched=True))


def schedules(text: str) -> list[ast.Schedule]:
    return [item for item in parse(Source("a.pipe", text)).items if isinstance(item, ast.Schedule)]


def resolve(graph: Graph, text: str) -> tuple[Settings, tuple[Diagnostic, ...]]:
    (schedule,) = schedules(f'schedule p on "server" {{\n{text}\n}}\n')
    return resolve_schedule(schedule, graph)


def settings(graph: Graph, text: str) -> Settings:
    found, diagnostics = resolve(graph, text)
    assert diagnostics == ()
    return found


def mistakes(graph: Graph, text: str) -> tuple[Diagnostic, ...]:
    return resolve(graph, text)[1]


def test_every_key_reaches_the_settings(graph: Graph) -> None:
    found = settings(
        graph,
        """
        angle { batch { max = 32, wait = 1ms } }
        read  {
            batch { max = 16, wait = 2ms, prefer = [16, 8] }, instances = 2, device = gpu(1)
            queue { size = 4, timeout = 1s, on_timeout = delay }
        }
        many { batch { max = 3 } }
        padded { batch { max = 4, pad = L, bucket = L / 64, waste = 0.2 }, device = cpu }
        queue { size = 256, timeout = 500ms, on_timeout = reject }
        device = sim
        memory { cpu = 900MiB, gpu(1) = 4GiB }
        """,
    )
    assert found.name == "server"
    assert found.stage("angle") == StageSettings(batching=Batching(32, 0.001))
    assert found.stage("read") == StageSettings(
        batching=Batching(16, 0.002, (8, 16)),
        instances=2,
        device="gpu:1",
        queueing=Queueing(4, 1.0, "delay"),
    )
    assert found.stage("many") == StageSettings(batching=Batching(3))
    padding = Padding(DimVar("L"), 64, 0.2)
    assert found.stage("padded") == StageSettings(Batching(4, padding=padding), device="cpu")
    assert found.queueing == Queueing(256, 0.5, "reject")
    assert found.device == "sim"
    assert found.memory == (("cpu", 900 << 20), ("gpu:1", 4 << 30))


def test_an_empty_schedule_says_nothing(graph: Graph) -> None:
    found = settings(graph, "")
    assert (found.stages, found.queueing, found.device, found.memory) == ((), None, None, ())


def test_batching_may_be_turned_off(graph: Graph) -> None:
    assert settings(graph, "read { batch = off }").stage("read") == StageSettings(batching_off=True)


def test_a_queue_without_a_size_has_the_default(graph: Graph) -> None:
    assert settings(graph, "queue { timeout = 1s }").queueing == Queueing(1024, 1.0, "reject")


CASES = [
    # unknown names
    ("reed { batch { max = 2 } }", "HR401", "reed", "did you mean `read`?"),
    ("zebra { instances = 2 }", "HR401", "zebra", None),
    ("qeue { size = 2 }", "HR401", "qeue", "did you mean `queue`?"),
    ("read { bacth { max = 2 } }", "HR402", "bacth", "did you mean `batch`?"),
    ("read { batch { mx = 2, max = 2 } }", "HR402", "mx", "did you mean `max`?"),
    ("queue { sise = 2 }", "HR402", "sise", "did you mean `size`?"),
    ("devise = cpu", "HR402", "devise", "did you mean `device`?"),
    # known, but without effect here
    ("instances = 2", "HR403", "instances", None),
    ("batch { max = 2 }", "HR403", "batch", None),
    ("read { max = 2 }", "HR403", "max", None),
    ("read { memory { cpu = 1GiB } }", "HR403", "memory", None),
    ("read { queue { size = 2 } }", "HR403", "queue", "give it `batch { max = 8 }`"),
    ("read { batch = off, queue { size = 2 } }", "HR403", "queue", "give it `batch { max = 8 }`"),
    ("queue { size = 2, on_timeout = delay }", "HR403", "on_timeout", "add `timeout = 500ms`"),
    ("quads { device = cpu }", "HR403", "device", None),
    ("image.warp { device = sim }", "HR403", "device", None),
    ("image.warp { instances = 2 }", "HR403", "instances", None),
    ("memory { sim = 1GiB }", "HR403", "sim", None),
    # known, but not served yet
    ("precision = fp16", "HR403", "precision", None),
    ("device = dla(0)", "HR404", "dla(0)", None),
    # padding
    ("read { batch { max = 2, pad = L } }", "HR424", "L", None),
    ("padded { batch { max = 2, pad = K } }", "HR424", "K", None),
    ("padded { batch { max = 2, pad = 3 } }", "HR405", "3", None),
    ("padded { batch { max = 2, pad = L, bucket = 64 } }", "HR405", "64", None),
    ("padded { batch { max = 2, pad = L, bucket = K / 64 } }", "HR405", "K / 64", None),
    ("padded { batch { max = 2, pad = L, bucket = L / 0 } }", "HR406", "0", None),
    ("padded { batch { max = 2, pad = L, waste = 1 } }", "HR406", "1", None),
    ("padded { batch { max = 2, pad = L, waste = x } }", "HR405", "x", None),
    ("padded { batch { max = 2, waste = 0.2 } }", "HR403", "waste", "add `pad = L`"),
    ("padded { batch { max = 2, bucket = L / 8 } }", "HR403", "bucket", "add `pad = L`"),
    ("many { batch { max = 2, pad = L } }", "HR403", "pad", None),
    # values of another kind
    ("read { batch { max = 2ms } }", "HR405", "2ms", None),
    ("read { batch { max = 2.5 } }", "HR405", "2.5", None),
    ("read { batch { max = 2, wait = 2 } }", "HR405", "2", None),
    ("read { batch { max = 2, prefer = 2 } }", "HR405", "2", None),
    ("read { batch { max = 2, prefer = [x] } }", "HR405", "x", None),
    ("read { batch = 3 }", "HR405", "3", "write `batch { max = 3 }`"),
    ("read { batch = on }", "HR405", "on", "write `batch { max = 8 }`"),
    ("read { batch = 2ms }", "HR405", "2ms", None),
    ("read { batch = of }", "HR405", "of", "did you mean `off`?"),
    ("read { instances { n = 2 } }", "HR405", "instances { n = 2 }", None),
    ("read = 3", "HR405", "read = 3", None),
    ("queue = 3", "HR405", "queue = 3", None),
    ("queue { timeout = 2s, on_timeout = rejct }", "HR405", "rejct", "did you mean `reject`?"),
    ("memory { cpu = 900 }", "HR405", "900", None),
    ("device = 3", "HR405", "3", None),
    # values out of range
    ("read { batch { max = 0 } }", "HR406", "0", None),
    ("read { batch { max = -1 } }", "HR406", "-1", None),
    ("read { batch { max = 8, wait = -1ms } }", "HR406", "-1ms", None),
    ("read { batch { max = 8, prefer = [4, 16] } }", "HR406", "[4, 16]", None),
    ("read { batch { max = 8, prefer = [4, 4] } }", "HR406", "[4, 4]", None),
    ("read { batch { wait = 1ms } }", "HR406", "batch", "add `max = 8`"),
    ("read { instances = 0 }", "HR406", "0", None),
    ("queue { timeout = 0ms }", "HR406", "timeout = 0ms", None),
    ("memory { cpu = 0MiB }", "HR406", "0MiB", None),
    # twice
    ("read { instances = 1 }\nread { instances = 2 }", "HR407", "read", None),
    ("device = cpu\ndevice = sim", "HR407", "device", None),
    ("read { batch { max = 1, max = 2 } }", "HR407", "max", None),
    # cannot batch
    ("whole { batch { max = 2 } }", "HR408", "batch", None),
    ("quads { batch { max = 2 } }", "HR408", "batch", None),
    # devices
    ("device = gpo(0)", "HR420", "gpo(0)", "did you mean `gpu(0)`?"),
    ("device = gpu", "HR420", "gpu", "write `gpu(0)`"),
    ("device = cuda", "HR420", "cuda", "did you mean `gpu(0)`?"),
    ("device = tpu", "HR420", "tpu", "did you mean `cpu`?"),
    ("memory { disk = 1GiB }", "HR420", "disk", None),
]


@pytest.mark.parametrize(("text", "code", "at", "help"), CASES, ids=[case[0] for case in CASES])
def test_each_mistake_has_its_code_place_and_help(
    graph: Graph, text: str, code: str, at: str, help: str | None
) -> None:
    (found,) = mistakes(graph, text)
    assert (found.code, found.primary.span.text, found.help) == (code, at, help)


def test_all_mistakes_are_reported_in_the_order_written(graph: Graph) -> None:
    found = mistakes(graph, "read { batch { mx = 0, wait = 1 } }\nreed { x = 1 }\ndevice = 3\n")
    assert [d.code for d in found] == ["HR402", "HR405", "HR401", "HR405"]


def test_an_unknown_key_lists_the_valid_ones(graph: Graph) -> None:
    (found,) = mistakes(graph, "read { zzz = 1 }")
    assert found.notes == (
        "a stage takes `batch`, `instances`, `device`, `queue`, `priority`, `cache`, `warmup`,"
        " `threads`, `cpus`, `resources`, `weight`, `isolate`, `backend`, `engine`,"
        " `precision`, `graphs`",
    )


def test_a_device_for_models_that_all_have_their_own_has_no_effect(make: GraphMaker) -> None:
    graph = make.graph(make.model("m", make.param("x", F32), type=F32))
    (found,) = mistakes(graph, "m { device = sim }\ndevice = cpu")
    assert (found.code, found.primary.span.text) == ("HR403", "device")


# ---- which schedule


TWO = 'schedule p on "laptop" { }\nschedule p on "server" { }\nschedule q on "server" { }\n'


def test_the_only_schedule_holds() -> None:
    (only,) = schedules('schedule p on "x" { }')
    assert choose_schedule([only], "p", None) is only
    assert choose_schedule([only], "q", None) is None


def test_the_one_that_is_asked_for_holds() -> None:
    laptop, server, other = found = schedules(TWO)
    assert choose_schedule(found, "p", "laptop") is laptop
    assert choose_schedule(found, "p", "server") is server
    assert choose_schedule(found, "q", "server") is other
    assert choose_schedule(found, "q", "laptop") is None


@pytest.mark.parametrize("default", ['on "default" ', ""])
def test_of_several_the_default_holds(default: str) -> None:
    found = schedules(f'schedule p on "x" {{ }}\nschedule p {default}{{ }}')
    assert choose_schedule(found, "p", None) is found[1]


def test_several_without_a_default_are_a_mistake_that_lists_them() -> None:
    unclear = choose_schedule(schedules(TWO), "p", None)
    assert isinstance(unclear, Diagnostic)
    assert unclear.code == "HR409"
    assert unclear.notes == ("choose one of laptop, server",)
    assert len(unclear.secondary) == 1


def test_asking_for_a_schedule_that_is_not_there_names_the_nearest() -> None:
    check_wanted(schedules(TWO), "server")
    with pytest.raises(ScheduleError, match="there are laptop, server") as caught:
        check_wanted(schedules(TWO), "sever")
    assert caught.value.help == "did you mean `--schedule server`?"
    with pytest.raises(ScheduleError, match="the file has none"):
        check_wanted([], "server")


def test_a_schedule_of_a_pipeline_that_is_not_there_names_the_nearest() -> None:
    (found,) = check_schedules(schedules("schedule oct { }"), ["ocr"])
    assert (found.code, found.help) == ("HR416", "did you mean `ocr`?")


def test_two_schedules_of_one_name_are_a_mistake() -> None:
    (found,) = check_schedules(schedules('schedule p on "a" { }\nschedule p on "a" { }'), ["p"])
    assert found.code == "HR417"
