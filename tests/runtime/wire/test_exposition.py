"""Metrics as Prometheus reads them."""

from pathlib import Path

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.compiler import compile_source
from headrace.dsl.read import read_source
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.exposition import expose
from headrace.runtime.repository.figures import figures_of
from headrace.runtime.repository.repository import Repository
from headrace.runtime.request import Request
from headrace.runtime.server import Server
from tests.runtime.wire.conftest import Start
from tests.runtime.wire.test_http import numbers

Samples = dict[tuple[str, ...], float]


def scrape(server: Server) -> Samples:
    """Every sample by its name and the values of its labels.

    The parser puts `_total` behind every counter, whether it is there or not.
    """
    answer = httpx.get(f"http://{server.addresses.metrics}/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name.removesuffix("_total"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def text(value: str) -> dict[str, object]:
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": [value]}
    return {"inputs": [tensor]}


def test_requests_are_counted_by_model_and_failures_by_reason(start: Start) -> None:
    server = start()
    base = f"http://{server.addresses.http}/v2/models"
    with httpx.Client() as http:
        for _ in range(3):
            http.post(f"{base}/echo_f32/infer", json=numbers([1], [1]))
        http.post(f"{base}/fail/infer", json=text("fine"))
        http.post(f"{base}/fail/infer", json=text("marker"))
    samples = scrape(server)
    assert samples["nv_inference_request_success", "echo_f32", "1"] == 3
    assert samples["nv_inference_count", "echo_f32", "1"] == 3
    assert samples["nv_inference_request_failure", "fail", "BACKEND", "1"] == 1
    assert samples["nv_inference_request_failure", "fail", "REJECTED", "1"] == 0
    assert samples["nv_inference_request_duration_us", "fail", "1"] > 0
    assert samples["nv_inference_pending_request_count", "fail", "1"] == 0


def test_stages_show_executions_rows_times_and_batch_sizes(start: Start) -> None:
    server = start()
    base = f"http://{server.addresses.http}/v2/models"
    httpx.post(f"{base}/fail/infer", json=text("fine"))
    samples = scrape(server)
    assert samples["headrace_stage_executions", "plan-0", "fail"] == 1
    assert samples["headrace_stage_rows", "plan-0", "fail"] == 1
    assert samples["headrace_stage_compute_seconds", "plan-0", "fail"] > 0
    assert samples["headrace_stage_queue_seconds", "plan-0", "fail"] >= 0
    assert samples["headrace_stage_mixed_batches", "plan-0", "fail"] == 0
    assert samples["headrace_stage_batch_size_bucket", "plan-0", "1.0", "fail"] == 1
    assert samples["headrace_stage_batch_size_count", "plan-0", "fail"] == 1


@pytest.mark.parametrize("name", ["nv_inference_request_success", "nv_inference_count"])
def test_counters_that_dashboards_know_have_their_old_names(one_server: Server, name: str) -> None:
    page = httpx.get(f"http://{one_server.addresses.metrics}/metrics").text
    assert f"# TYPE {name} counter" in page
    assert "nv_inference_request_success_total" not in page


def test_stages_of_one_name_are_one_series(tmp_path: Path) -> None:
    (tmp_path / "ops.pipe").write_text(
        "pipeline a(x: f32[N]) -> (y: f32[N]) { return y = (x + 1.0) * 2.0 + x }\n"
        "pipeline b(x: f32[N]) -> (y: f32[N]) { return y = x + 3.0 }\n"
    )
    plan = compile_source(read_source(tmp_path / "ops.pipe"))
    repository = Repository()
    for number in (1, 2):
        engine = Engine(plan, EngineConfig(workers=1))
        repository.adopt("ops", engine, number)
        engine.call(Request("a", {"x": np.ones(2, np.float32)}))
        engine.call(Request("b", {"x": np.ones(2, np.float32)}))
        engine.close()
    page = expose(figures_of(repository)).decode()
    series = [line.rpartition(" ")[0] for line in page.splitlines() if "stage=" in line]
    assert len(series) == len(set(series))
    assert 'headrace_stage_rows_total{app="ops",stage="math.add"} 6.0' in page
    assert 'headrace_stage_batch_size_count{app="ops",stage="math.add"} 6.0' in page


def test_rows_that_a_cache_has_kept_are_counted_by_model_and_stage(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text("def twice(x):\n    return x * 2\n")
    (tmp_path / "kept.pipe").write_text(
        'fn twice(x: f32[2]) -> (y: f32[2]) = python "twice.py:twice" pure\n'
        "pipeline p(x: f32[2]) -> (y: f32[2]) { return y = twice(x) }\n"
        "schedule p { twice { cache = 1MiB } }\n"
    )
    engine = Engine(compile_source(read_source(tmp_path / "kept.pipe")), EngineConfig(workers=1))
    repository = Repository()
    repository.adopt("kept", engine, 1)
    for value in (1, 1, 2, 1):
        engine.call(Request("p", {"x": np.full(2, value, np.float32)}))
    page = expose(figures_of(repository)).decode()
    assert 'nv_cache_num_hits_per_model{model="p",version="1"} 2.0' in page
    assert 'nv_cache_num_misses_per_model{model="p",version="1"} 2.0' in page
    assert 'headrace_stage_cache_hits_total{app="kept",stage="twice"} 2.0' in page
    assert 'headrace_stage_rows_total{app="kept",stage="twice"} 2.0' in page
    engine.close()
