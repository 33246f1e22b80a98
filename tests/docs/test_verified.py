"""docs/devices.md claims what tests and kept results show, and nothing else."""

import json
from pathlib import Path

from tests.runtime.devices.verified import FEATURES, missing, real, table

PAGE = Path(__file__).parents[2] / "docs" / "devices.md"
JOB = PAGE.parents[1] / "benchmarks" / "gpu_job.py"


def test_the_page_has_the_table_as_it_is_now() -> None:
    assert table() in PAGE.read_text("utf-8"), "python -m tests.runtime.devices.verified prints it"


def test_each_test_and_section_that_it_names_is_there() -> None:
    assert list(missing()) == []
    job = JOB.read_text("utf-8")
    assert all(f"def {one.section}(job" in job for one in FEATURES if one.section)


def test_a_gpu_is_named_only_where_a_section_has_run_there(tmp_path: Path) -> None:
    assert real("graphs", tmp_path) == "not yet"
    result = {
        "machine": {"when": "2026-12-01T10:00:00Z"},
        "what": {"product": "NVIDIA H200", "driver": 13000},
        "graphs": {"outcome": {}},
        "suite": {"error": "two failed"},
        "shared_memory": "skipped: no time was left",
    }
    (tmp_path / "gpu_h200.json").write_text(json.dumps(result))
    assert real("graphs", tmp_path) == "NVIDIA H200, driver 13000, 2026-12-01"
    assert [real(one, tmp_path) for one in ("suite", "shared_memory", "residency")] == [
        "not yet"
    ] * 3
