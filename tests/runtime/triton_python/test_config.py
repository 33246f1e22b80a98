"""What a model of Triton's Python backend is told of its instances."""

import json
from pathlib import Path

import pytest

from headrace.runtime.triton_python.config import arguments, declared, read_config

KNOWN = ("name", "kind", "count", "gpus")


@pytest.mark.parametrize(
    ("written", "device", "groups", "names"),
    [
        ("", "cpu", [("m", "KIND_CPU", 1, [])], ["m_0"]),
        ("", "gpu:1", [("m", "KIND_GPU", 1, [])], ["m_0"]),
        ("{ count: 2 }", "cpu", [("m_0", "KIND_CPU", 2, [])], ["m_0_0", "m_0_1"]),
        (
            '[{ name: "g" }, { kind: KIND_CPU count: 2 }]',
            "cpu",
            [("g", "KIND_CPU", 1, []), ("m_1", "KIND_CPU", 2, [])],
            ["g_0", "m_1_0", "m_1_1"],
        ),
        (
            "{ kind: KIND_GPU gpus: [0, 1] }",
            "gpu",
            [("m_0", "KIND_GPU", 1, [0, 1])],
            ["m_0_0", "m_0_0"],
        ),
    ],
)
def test_a_model_is_told_of_its_instances_as_a_tritonserver_completes_them(
    tmp_path: Path,
    written: str,
    device: str,
    groups: list[tuple[str, str, int, list[int]]],
    names: list[str],
) -> None:
    if written:
        (tmp_path / "config.pbtxt").write_text(f"instance_group {written}")
    config = declared(read_config(tmp_path, "m"), [], [], True, device)
    told = [arguments(config, tmp_path, "1", device, at) for at in range(len(names))]
    assert [one["model_instance_name"] for one in told] == names
    found = json.loads(told[0]["model_config"])["instance_group"]
    assert [tuple(one[name] for name in KNOWN) for one in found] == groups
