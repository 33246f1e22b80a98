"""Files of Triton's Python backend, run as they are: what they are given, what becomes of what they
say, and what they may ask."""

import json
import logging
import os
import time
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

from headrace.runtime.context import Context
from headrace.runtime.custom_metrics import rendered
from headrace.runtime.engine import Engine
from headrace.runtime.request import Code, Fault, Request, Response
from tests.runtime.wire.conftest import eventually

pytestmark = pytest.mark.slow


def ask(engine: Engine, do: str, to: str = "outer", **known: object) -> "Future[Response]":
    given = np.array([[do]], object)
    return engine.submit(Request(to, {"DO": given}, **known))  # type: ignore[arg-type] by its name


def said(answer: "Future[Response]") -> str:
    found = answer.result(30).outputs["SAID"]
    assert isinstance(found, np.ndarray)
    return str(found.ravel()[0])


def failure(answer: "Future[Response]") -> Fault:
    with pytest.raises(Fault) as caught:
        answer.result(30)
    return caught.value


class Held:
    """A request that a model is at until it is let go."""

    def __init__(self, engine: Engine, folder: Path, name: str, to: str) -> None:
        self._path = folder / name
        for path in (self._path, folder / f"{name}.begun"):
            os.mkfifo(path)
        self.answer = ask(engine, f"hold {name}", to)
        (folder / f"{name}.begun").read_text()  # returns once the model is at it

    def let_go(self) -> None:
        self._path.write_text("let go")


def test_a_request_is_one_request_with_all_its_rows_and_what_is_known_of_it(engine: Engine) -> None:
    given = np.array([["request"]] * 3, object)
    known = {"tenant": "a", "beam": 4}
    request = Request("outer", {"DO": given}, "id-7", time.monotonic() + 60, parameters=known)
    for outputs in (engine.call(request).outputs, engine.submit(request).result(30).outputs):
        told = json.loads(str(np.asarray(outputs["SAID"]).ravel()[0]))
        assert told["id"] == "id-7"
        assert told["parameters"] == known
        assert told["timeout"] is True
        assert (told["rows"], told["together"], told["outputs"]) == (3, 1, ["SAID"])


def test_requests_that_wait_meet_and_stay_requests(engine: Engine, folder: Path) -> None:
    held = Held(engine, folder, "meet", "inner")
    answers = [ask(engine, "request", "inner", id=f"r{i}") for i in range(5)]
    held.let_go()
    told = [json.loads(said(one)) for one in answers]
    assert [one["id"] for one in told] == [f"r{i}" for i in range(5)]
    assert all(one["rows"] == 1 for one in told)
    assert max(one["together"] for one in told) > 1
    assert said(held.answer) == "let go"


def test_one_that_is_refused_fails_alone_and_nothing_runs_twice(
    engine: Engine, folder: Path
) -> None:
    held = Held(engine, folder, "apart", "inner")
    asked = ["request", "refuse", "request", "nothing", "sender"]
    answers = [ask(engine, do, "inner") for do in asked]
    held.let_go()
    first, third = (json.loads(said(answers[i])) for i in (0, 2))
    refused = failure(answers[1])
    assert (refused.code, refused.message) == (Code.INVALID, "not so")
    assert "gave no output `SAID`" in failure(answers[3]).message
    assert said(answers[4]) == "from a thread"
    if first["together"] == 5:
        assert first["calls"] == third["calls"]
    held.answer.result(30)


def test_what_a_model_raises_names_it_and_keeps_paths_for_the_log(engine: Engine) -> None:
    fault = failure(ask(engine, "raise"))
    assert fault.code is Code.FAILED
    assert fault.message.startswith("Failed to process the request(s) for model 'outer_")
    assert fault.message.endswith("message: ValueError: boom")
    assert "model.py" in fault.detail
    assert "model.py" not in fault.message
    assert json.loads(said(ask(engine, "request")))["together"] == 1


def test_a_model_that_leaves_fails_its_request_and_goes_on(engine: Engine) -> None:
    for kind in ("SystemExit", "KeyboardInterrupt"):
        fault = failure(ask(engine, f"leave {kind}"))
        assert (fault.code, fault.message.rpartition("message: ")[2]) == (
            Code.FAILED,
            f"{kind}: bye",
        )
    assert json.loads(said(ask(engine, "request")))["together"] == 1


def test_a_model_knows_its_folder_whenever_it_asks(engine: Engine) -> None:
    version = Path(said(ask(engine, "folder")))
    assert (version / "model.py").is_file()
    assert version.name == "1"


def test_a_model_may_be_asked_from_within_a_coroutine(engine: Engine) -> None:
    assert len(json.loads(said(ask(engine, "within inner many outer 3")))) == 3


def test_a_request_is_given_again_until_it_is_answered(engine: Engine) -> None:
    assert said(ask(engine, "again 3", "inner", id="once more")) == "after 3"


def test_nested_requests_wait_and_batch_with_all_others(engine: Engine) -> None:
    told = json.loads(said(ask(engine, "ask inner request", id="first", parameters={"x": 1})))
    assert (told["id"], told["parameters"]) == ("inner", {})
    assert told["timeout"] is False
    due = time.monotonic() + 60
    assert json.loads(said(ask(engine, "ask inner request", deadline=due)))["timeout"] is True
    many = json.loads(said(ask(engine, "many inner 20")))
    assert len(many) == 20
    assert max(one["together"] for one in many) > 1


def test_nested_requests_carry_the_trace_of_theirs(engine: Engine) -> None:
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    told = json.loads(said(ask(engine, "ask inner request", parameters={**trace, "own": "x"})))
    assert told["parameters"] == trace


def test_failures_of_nested_requests_are_errors_of_their_responses(
    engine: Engine, folder: Path
) -> None:
    assert said(ask(engine, "ask nobody request")).startswith("2 Model nobody - Error when")
    assert "not so" in said(ask(engine, "ask inner refuse"))
    assert "decoupled=True" in said(ask(engine, "ask numbers request"))
    held = Held(engine, folder, "busy", "inner")
    assert "deadline" in said(ask(engine, "late inner"))
    held.let_go()
    held.answer.result(30)


def test_nested_streams_are_read_one_by_one(engine: Engine) -> None:
    assert json.loads(said(ask(engine, "stream 40"))) == [[n] for n in range(40)]
    assert json.loads(said(ask(engine, "stream 0"))) == []


def test_a_model_asks_which_models_are_ready(engine: Engine) -> None:
    assert json.loads(said(ask(engine, "ready"))) == [True, False]


def numbers(engine: Engine, count: int) -> list[int]:
    given = {"COUNT": np.array([count], np.int32)}
    found = engine.submit(Request("numbers", given)).result(30).outputs["N"]
    assert isinstance(found, list)
    return [int(np.asarray(one)[0]) for one in found]


def test_a_decoupled_model_answers_any_number_of_times(engine: Engine) -> None:
    assert numbers(engine, 30) == list(range(30))
    assert numbers(engine, 0) == []
    with pytest.raises(Fault, match="none"):
        numbers(engine, -1)
    assert numbers(engine, 2) == [0, 1]


def test_streams_that_wait_take_no_worker_and_a_model_sees_who_has_gone(
    engine: Engine, folder: Path
) -> None:
    """More of them than workers wait, and others are answered; then their callers leave."""
    given = {"COUNT": np.array([99], np.int32)}
    ids = [f"waits-{n}" for n in range(8)]
    for id in ids:
        os.mkfifo(folder / f"{id}.go")
        os.mkfifo(folder / f"{id}.seen")
    waiting = [engine.submit(Request("numbers", given, id)) for id in ids]
    assert numbers(engine, 3) == [0, 1, 2]
    assert json.loads(said(ask(engine, "request")))["together"] == 1
    for one in waiting:
        assert one.cancel()
    for id in ids:
        (folder / f"{id}.go").write_text("on")
        assert (folder / f"{id}.seen").read_text() == "True"


def test_metrics_of_models_are_the_servers(engine: Engine) -> None:
    before = rendered(engine.nested.metrics.families()).decode()
    assert "# TYPE asked_total counter" in before
    ask(engine, "request").result(30)
    after = rendered(engine.nested.metrics.families()).decode()
    counts = [
        float(line.split()[-1])
        for text in (before, after)
        for line in text.splitlines()
        if line.startswith('asked_total{model="outer"}')
    ]
    assert counts[1] == counts[0] + 1


def test_the_log_has_a_line_for_each_that_a_model_writes(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "headrace.runtime.triton_python"):
        assert said(ask(engine, "log")) == "logged"
    lines = [one.getMessage() for one in caplog.records if "triton_python" in one.name]
    assert lines == ["outer: a line\\nof two", "outer: another"]


def test_the_configuration_has_what_the_file_says_and_what_is_declared(engine: Engine) -> None:
    config = json.loads(said(ask(engine, "config")))
    assert (config["name"], config["max_batch_size"]) == ("outer", 8)
    assert [(one["name"], one["data_type"], one["dims"]) for one in config["input"]] == [
        ("DO", "TYPE_STRING", [1])
    ]


def test_a_worker_that_dies_fails_what_it_was_at_and_the_next_request_works(
    engine: Engine, isolate: str
) -> None:
    if isolate == "off":
        pytest.skip("it would end the tests")
    fault = failure(ask(engine, "die", "inner"))
    assert "status 3" in fault.message or "exit" in fault.message
    eventually(lambda: not engine.unready)
    assert json.loads(said(ask(engine, "request", "inner")))["calls"] >= 1


def test_a_context_tells_its_end_once_to_whoever_asks() -> None:
    heard: list[str] = []
    context = Context()
    context.tell_end(lambda: heard.append("before"))
    context.end(cancelled=True)
    context.tell_end(lambda: heard.append("after"))
    assert (heard, context.cancelled) == (["before", "after"], True)
