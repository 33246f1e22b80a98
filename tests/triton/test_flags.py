"""The options of a tritonserver as this server takes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.command import Exit
from headrace.cli.main import main


def printed(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> Any:  # Any: JSON
    """Return the settings that would hold."""
    told = ["run", "--model-repository", str(folder), *words, "--print-config"]
    assert main(told) == Exit.GOOD
    return json.loads(capsys.readouterr().out)


def test_a_tritonserver_s_words_are_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = printed(
        capsys,
        tmp_path,
        *("--http-address=127.0.0.2", "--grpc-address", "127.0.0.2", "--allow-metrics=false"),
        *("--http-port=9000", "--exit-timeout-secs=7", "--id=triton", "--log-verbose=1"),
        *("--model-control-mode=explicit", "--load-model=a", "--strict-readiness=false"),
        *("--cache-config=local,size=1048576", "--backend-config=default-max-batch-size=8"),
    )
    assert (found["host"], found["http_port"], found["metrics_port"]) == ("127.0.0.2", 9000, None)
    assert (found["grace"], found["name"]) == (7, "triton")
    assert (found["command"]["control"], found["command"]["load"]) == ("explicit", ["a"])
    assert found["policy"]["control"] == "anybody"
    assert "cuda_graphs" not in found["command"]


def test_what_has_no_effect_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ["run", "--model-repository", str(tmp_path), "--pinned-memory-pool-byte-size=0"]
    assert main([*told, "--print-config"]) == Exit.GOOD
    assert "--pinned-memory-pool-byte-size has no effect here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--http-restricted-api=health:a=b",), "`--tokens FILE`"),
        (("--cache-config=redis,host=x",), "other caches are not served"),
        (("--http-address=1.2.3.4", "--grpc-address=1.2.3.5"), "all ports are on one address"),
        (("--rate-limit-resource=R:2",), "goes with --rate-limit"),
        (("--strict-readiness=maybe",), "neither true nor false"),
        (("--trace-config=triton,speed=2",), "no setting of tracing"),
        (("--backend-config=python,in-process=maybe",), "neither true nor false"),
        (("--backend-config=in-process=true",), "python,in-process=true"),
        (("--versions=all",), "`version_policy`"),
        (("ocr.plan",), "in the place of FILE"),
    ],
)
def test_what_cannot_be_is_a_wrong_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert main(["run", "--model-repository", str(tmp_path), *words]) == Exit.USAGE
    assert said in capsys.readouterr().err


def test_a_server_has_something_to_serve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--model-repository", str(tmp_path / "nowhere")]) == Exit.USAGE
    assert "there is no folder" in capsys.readouterr().err
    assert main(["run"]) == Exit.USAGE
    assert "--model-repository DIR" in capsys.readouterr().err
