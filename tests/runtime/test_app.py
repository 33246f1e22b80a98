"""The face: pipelines as functions, records of results, two engines behind one app."""

import asyncio
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import headrace
from headrace.app import App, CompiledPlan
from headrace.compiler.plan import Plan
from headrace.runtime.record import Record, record_type
from headrace.runtime.request import Code, Fault, RequestError
from tests.runtime.plans import PlanMaker, add_model, block, call, fields


def toy() -> Plan:
    maker = PlanMaker()
    add = maker.onnx("add", add_model(1.0, "N"), fields(x="f32[N]"), fields(y="f32[N]"), group=8)
    text = maker.python(
        "name", "def name(x):\n    return f'{x.sum():g}'\n", fields(x="f32[N]"), fields(t="string")
    )
    body = block([0], [call(add, [0], [1]), call(text, [1], [2])], [1, 2])
    results = fields(y="f32[N]", text="string")
    maker.pipeline("ocr", fields(x="f32[N]"), results, body)
    maker.pipeline("rows", fields(x="f32[N]"), results, body, batch=8)
    maker.pipeline("odd", fields(timeout="f32[N]"), fields(close="f32[N]", count="string"), body)
    return maker.plan()


@pytest.fixture
def app() -> Iterator[App]:
    with headrace.load(toy(), workers=2, intra_op_threads=1) as opened:
        yield opened


def test_an_app_and_what_it_is_made_of_are_readable(app: App) -> None:
    shown = repr(app)
    assert shown.startswith("App(\n    ocr(x: f32[N]) -> (y: f32[N], text: string)\n    rows(")
    assert repr(CompiledPlan(app.plan)) == shown.replace("App", "CompiledPlan")
    assert "\\x" not in repr(app.plan), "models are not shown"


def test_a_call_gives_a_record(app: App) -> None:
    page = app.ocr(x=[1, 2])
    np.testing.assert_array_equal(page.y, np.array([2, 3], np.float32))
    assert page.text == "5"
    y, text = page
    assert y is page.y
    assert text == page[1] == "5"
    assert list(page._asdict()) == ["y", "text"]  # pyright: ignore[reportPrivateUsage] as of a namedtuple


def test_a_record_is_readable(app: App) -> None:
    shown = repr(app.ocr(x=[1, 2]))
    assert shown == "ocr(\n    y    = f32[2] 2 3\n    text = '5'\n)"
    rows = repr(app.rows(x=np.zeros((3, 1), np.float32)))
    assert "string[3] '1' '1' '1'" in rows


def test_a_record_survives_pickling(app: App) -> None:
    page = app.ocr(x=[1, 2])
    again = pickle.loads(pickle.dumps(page))
    assert again.text == "5"
    assert repr(again) == repr(page)


def test_results_may_be_called_anything() -> None:
    record = record_type("p", ["count", "class", "_x", "index"])((1, 2, 3, 4))
    assert (record.count, getattr(record, "class"), record._x, record.index) == (1, 2, 3, 4)  # type: ignore[comparison-overlap]
    assert isinstance(record, Record)


def test_a_batch_pipeline_has_a_leading_axis(app: App) -> None:
    page = app["rows"](x=np.arange(6, dtype=np.float32).reshape(3, 2))
    assert page.y.shape == (3, 2)
    assert page.text.dtype == object
    assert page.text.tolist() == ["3", "7", "11"]


def test_a_wrong_input_shows_the_signature(app: App) -> None:
    with pytest.raises(headrace.RequestError, match=r"ocr\(x: f32\[N\]\) -> \(y: f32\[N\]"):
        app.ocr(z=1)
    with pytest.raises(headrace.RequestError, match="`x` is f64"):
        app.ocr.submit(x=np.zeros(2))
    assert app.ocr.signature == "ocr(x: f32[N]) -> (y: f32[N], text: string)"


def test_a_wrong_pipeline_names_the_nearest(app: App) -> None:
    with pytest.raises(AttributeError, match="no pipeline `ocrr`; did you mean `ocr`"):
        app.ocrr  # noqa: B018
    with pytest.raises(KeyError, match="did you mean `rows`"):
        app["row"]


def test_an_app_is_a_function_only_when_it_has_one_pipeline(app: App) -> None:
    with pytest.raises(headrace.RequestError, match=r"several pipelines \(ocr, rows, odd\)"):
        app(x=[1])
    maker = PlanMaker()
    add = maker.onnx("add", add_model(1.0), fields(x="f32"), fields(y="f32"))
    maker.pipeline("only", fields(x="f32"), fields(y="f32"), block([0], [call(add, [0], [1])], [1]))
    with headrace.load(CompiledPlan(maker.plan())) as one:
        assert one(x=1).y == 2


def test_inputs_and_results_may_have_the_names_of_options_and_methods(app: App) -> None:
    assert app.odd(timeout=[1.0]).close.tolist() == [2.0]
    assert app.odd.submit(timeout=[1.0]).result(20).count == "2"  # type: ignore[comparison-overlap]


def test_only_the_wanted_results_are_made(app: App) -> None:
    page = app.ocr(x=[1], outputs=["y"])
    assert page._fields == ("y",)  # pyright: ignore[reportPrivateUsage] as of a namedtuple
    assert app.metrics[0].stage("name").executions == 0
    assert app.ocr.submit(x=[1], outputs=["text"]).result(20).text == "2"
    with pytest.raises(headrace.RequestError, match="no result `zz`"):
        app.ocr(x=[1], outputs=["zz"])


def test_a_call_whose_time_is_up_is_a_deadline_fault(app: App) -> None:
    with pytest.raises(headrace.Fault) as caught:
        app.ocr(x=[1], timeout=-1.0)
    assert caught.value.code is headrace.Code.DEADLINE
    with pytest.raises(headrace.Fault, match="deadline has passed"):
        app.ocr.submit(x=[1], timeout=-1.0).result(20)


def test_submitted_and_awaited_requests_give_the_same(app: App) -> None:
    futures = [app.ocr.submit(x=[float(i)]) for i in range(20)]
    assert [float(future.result(20).text) for future in futures] == list(range(1, 21))

    async def both() -> tuple[Record, Record]:
        return await asyncio.gather(app.ocr.aio(x=[1, 2]), app.rows.aio(x=[[1], [2]]))

    one, many = asyncio.run(both())
    assert one.text == "5"
    assert many.text.tolist() == ["2", "3"]


def test_calls_and_submits_share_an_engine_when_they_agree() -> None:
    with headrace.load(toy(), workers=1, intra_op_threads=1) as shared:
        shared.ocr.submit(x=[1]).result(20)
        assert len(shared.metrics) == 1
    cores = len(__import__("os").sched_getaffinity(0))
    with headrace.load(toy()) as apart:
        apart.ocr.submit(x=[1]).result(20)
        assert len(apart.metrics) == (1 if cores == 1 else 2)


def test_closing_waits_for_what_was_submitted() -> None:
    maker = PlanMaker()
    gate = threading.Event()
    stage = maker.python(
        "wait",
        "import gate\n\ndef wait(x):\n    gate.event.wait(10)\n    return x\n",
        fields(x="f32"),
        fields(y="f32"),
    )
    maker.pipeline("p", fields(x="f32"), fields(y="f32"), block([0], [call(stage, [0], [1])], [1]))
    module = type(sys)("gate")
    module.event = gate  # type: ignore[attr-defined]
    sys.modules["gate"] = module
    try:
        app = headrace.load(maker.plan(), workers=1, intra_op_threads=1)
        futures = [app.p.submit(x=float(i)) for i in range(3)]
        closing = threading.Thread(target=app.close)
        closing.start()
        gate.set()
        closing.join(10)
        assert [float(future.result(0).y) for future in futures] == [0, 1, 2]
        with pytest.raises(headrace.Fault, match="takes no more requests"):
            app.p(x=1)
    finally:
        del sys.modules["gate"]


def test_a_plan_is_loaded_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "toy.plan"
    CompiledPlan(toy()).save(path)
    for source in (path, str(path), path.read_bytes()):
        with headrace.load(source) as app:
            assert app.ocr(x=[1, 2]).text == "5"
    with pytest.raises(headrace.PlanError):
        headrace.load(tmp_path / "none.plan")


@pytest.mark.slow
def test_importing_starts_nothing_and_is_light() -> None:
    code = (
        "import sys, threading, headrace\n"
        "heavy = {'onnxruntime', 'onnx', 'numpy', 'lark', 'cv2'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert threading.active_count() == 1\n"
        "assert 'load' in dir(headrace)\n"
        "headrace.load\n"
        "assert 'onnxruntime' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_faults_can_be_pickled(app: App) -> None:
    with pytest.raises(RequestError) as caught:
        app.ocr(x="word")
    fault = Fault(Code.FAILED, "no", pipeline="p", stage="s", item=(1,), detail="log")
    for one in (caught.value, fault):
        again = pickle.loads(pickle.dumps(one))
        assert type(again) is type(one)
        assert str(again) == str(one)
        assert vars(again) == vars(one)


def test_outputs_are_names(app: App) -> None:
    assert app.ocr(x=[1.0], outputs="text").text == "2"
    for wrong in (3, [3], [["text"]]):
        with pytest.raises(TypeError, match="outputs are names of results"):
            app.ocr(x=[1.0], outputs=wrong)
        with pytest.raises(TypeError, match="outputs are names of results"):
            app.ocr.submit(x=[1.0], outputs=wrong)


def test_a_walk_over_nothing_gives_the_sizes_that_are_known() -> None:
    source = """
pipeline p(x: f32[M, N], w: f32[N, K], least: f32) -> (
    kept: f32[S, N],
    nested: f32[M, N],
    product: f32[M, K],
    wide: f32[M, 2 * N],
) {
    some = for row in x { yield row when row[0] > least }
    every = for row in x {
        cells = for cell in row { yield cell + 1.0 }
        yield row = cells, wide = concat(row, row)
    }
    return kept = some, nested = every.row, product = every.row @ w, wide = every.wide
}
"""
    with headrace.load(source, workers=1) as app:
        w = np.ones((3, 4), np.float32)
        none = app(x=np.ones((0, 3), np.float32), w=w, least=0.0)
        assert [value.shape for value in none] == [(0, 3), (0, 3), (0, 4), (0, 6)]
        some = app(x=np.ones((2, 3), np.float32), w=w, least=2.0)
        assert [value.shape for value in some] == [(0, 3), (2, 3), (2, 4), (2, 6)]
        submitted = app.p.submit(x=np.ones((2, 0), np.float32), w=w[:0], least=0.0, outputs="wide")
        assert submitted.result(20).wide.shape == (2, 0)
        only = app(x=np.ones((0, 3), np.float32), w=w, least=0.0, outputs=["nested"])
        assert only.nested.shape == (0, 3)


KEEPING = """
fn count(x: f32, id: string) -> (n: f32) = python "count.py:count"
model total = python "count.py:Total" (x: f32, start: bool, ready: bool) -> (sum: f32)

pipeline counted(x: f32) -> (n: f32) per sequence { return n = count(x, sequence.id) }
pipeline summed(x: f32) -> (sum: f32) per sequence {
    return sum = total(x, sequence.start, sequence.ready)
}

schedule summed {
    total { batch { max = 2 } }
    sequences { strategy = direct, slots = 2 }
}
"""
COUNT = """
import numpy as np
seen = {}

def count(x, id):
    seen[id] = seen.get(id, 0) + x
    return seen[id]

class Total:
    def __init__(self):
        self.sums = np.zeros(2, np.float32)

    def __call__(self, x, start, ready):
        self.sums[start] = 0
        self.sums[ready] += x[ready]
        return self.sums
"""


def test_what_keeps_something_of_sequences_itself_is_one_however_it_is_called(
    tmp_path: Path,
) -> None:
    (tmp_path / "count.py").write_text(COUNT)
    (tmp_path / "p.pipe").write_text(KEEPING)
    with headrace.load(tmp_path / "p.pipe", workers=2) as app:
        for pipeline in (app.counted, app.summed):
            calls = pipeline.sequence("a")
            assert (calls(x=1)[0], calls.submit(x=1).result(10)[0]) == (1, 2)
            assert calls(x=1)[0] == 3


def test_an_app_that_one_of_its_own_requests_closes_says_so_and_goes_on(
    meeting: ModuleType,
) -> None:
    raised: list[str] = []
    go = threading.Event()

    def close(what: object) -> object:
        with pytest.raises(RuntimeError) as caught:
            opened.close()
        raised.append(str(caught.value).partition(",")[0])
        return what

    def wait(what: object) -> object:
        assert go.wait(20)
        return close(what)

    meeting.wait = wait  # type: ignore[attr-defined]
    maker = PlanMaker()
    source = "import meeting\ndef stage(x):\n    return meeting.wait(x)\n"
    stage = maker.python("stage", source, fields(x="f32"), fields(y="f32"))
    maker.pipeline("p", fields(x="f32"), fields(y="f32"), block([0], [call(stage, [0], [1])], [1]))
    with headrace.load(maker.plan(), workers=1) as opened:
        future = opened.p.submit(x=1)
        future.add_done_callback(close)
        go.set()
        assert future.result(20).y == 1
        assert opened.p(x=2).y == 2
    assert raised == ["what answers requests cannot be closed in a stage"] * 3
