"""Trace files: what ui.perfetto.dev and chrome://tracing ask of the JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.runtime.observe.perfetto import WORKERS, TraceFile, save
from headrace.runtime.observe.recording import Recording
from headrace.runtime.request import Request
from headrace.runtime.simulate import Simulation
from tests.runtime.observe.pipes import plan_in

Event = dict[str, Any]  # Any: JSON


def check_events(events: Sequence[Event]) -> None:
    """Hold events to the trace event format: fields, slices that nest, arrows that meet slices."""
    tracks: dict[tuple[int, int], list[Event]] = {}
    for event in events:
        assert event["ph"] in "XMisf"
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
            continue
        assert isinstance(event["ts"], float)
        if event["ph"] == "X":
            assert event["dur"] >= 0
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    for slices in tracks.values():
        check_nested(slices)
    leaving = {event["id"]: event for event in events if event["ph"] == "s"}
    coming = {event["id"]: event for event in events if event["ph"] == "f"}
    assert leaving.keys() == coming.keys()
    for number, event in leaving.items():
        assert event["ts"] <= coming[number]["ts"] + 1e-3
        for end in (event, coming[number]):
            around = tracks[end["pid"], end["tid"]]
            assert any(s["ts"] - 1e-3 <= end["ts"] <= s["ts"] + s["dur"] + 1e-3 for s in around)
    assert all(event["bp"] == "e" for event in coming.values())


def check_nested(slices: Sequence[Event]) -> None:
    open_until: list[float] = []
    for one in sorted(slices, key=lambda one: (one["ts"], -one["dur"])):
        start, stop = one["ts"], one["ts"] + one["dur"]
        while open_until and open_until[-1] <= start + 1e-3:
            open_until.pop()
        assert not open_until or stop <= open_until[-1] + 1e-3, one["name"]
        open_until.append(stop)


@pytest.fixture
def batched(tmp_path: Path) -> list[Recording]:
    plan = plan_in(tmp_path, schedule="server").plan
    simulation = Simulation(plan, workers=2, cost=lambda _stage, _rows: 0.002)
    recorded = [
        simulation.record(Request("slow", {"x": np.float32(x)}, str(x)))[1] for x in range(3)
    ]
    simulation.run()
    simulation.close()
    return recorded


def test_a_file_of_a_call_is_well_formed(tmp_path: Path) -> None:
    with headrace.load(plan_in(tmp_path), workers=2, intra_op_threads=1) as app:
        _, trace = app.each(xs=[1, 2, 3], trace=True)
        trace.save(tmp_path / "out.json")
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["displayTimeUnit"] == "ms"
    check_events(content["traceEvents"])
    names = [event["name"] for event in content["traceEvents"] if event["ph"] == "X"]
    assert {"each", "plus", "double", "reject"} <= set(names)


def test_a_shared_batch_is_there_once_with_an_arrow_from_each_request(
    tmp_path: Path, batched: list[Recording]
) -> None:
    save(tmp_path / "out.json", batched)
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    check_events(events)
    (batch,) = [e for e in events if e["pid"] == WORKERS and e["name"] == "double (3 requests)"]
    assert batch["args"]["rows"] == 3
    at = (batch["tid"], batch["ts"])
    assert len([e for e in events if e["ph"] == "f" and (e["tid"], e["ts"]) == at]) == 3


def test_a_growing_file_is_whole_when_closed_and_readable_before(
    tmp_path: Path, batched: list[Recording]
) -> None:
    file = TraceFile(tmp_path / "out.json")
    file.take(batched[0])
    begun = (tmp_path / "out.json").read_text()
    check_events(json.loads(begun.rstrip().rstrip(",") + "]"))
    file.take(batched[1])
    file.close()
    file.take(batched[2])
    *events, last = json.loads((tmp_path / "out.json").read_text())
    assert last == {}
    check_events(events)
    assert file.dropped == 1


def test_a_growing_file_ends_at_its_bound(tmp_path: Path, batched: list[Recording]) -> None:
    file = TraceFile(tmp_path / "out.json", most=10)
    for recording in batched:
        file.take(recording)
    file.close()
    assert file.dropped == 2
