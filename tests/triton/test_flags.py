"""The options of a tritonserver as this server takes them."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.command import Exit
from headrace.cli.main import main
from headrace.cli.run import COMMAND


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


# The options of tritonserver 2.51, as its `--help` lists them.
OPTIONS = """
id exit-timeout-secs log-verbose log-info log-warning log-error log-format log-file model-store
model-repository exit-on-error disable-auto-complete-config strict-readiness model-control-mode
repository-poll-secs load-model model-config-name model-load-thread-count model-load-retry-count
model-namespacing enable-peer-access allow-http http-address http-port reuse-http-port
http-header-forward-pattern http-thread-count http-restricted-api allow-grpc grpc-address grpc-port
reuse-grpc-port grpc-header-forward-pattern grpc-infer-allocation-pool-size grpc-use-ssl
grpc-use-ssl-mutual grpc-server-cert grpc-server-key grpc-root-cert
grpc-infer-response-compression-level grpc-keepalive-time grpc-keepalive-timeout
grpc-keepalive-permit-without-calls grpc-http2-max-pings-without-data
grpc-http2-min-recv-ping-interval-without-data grpc-http2-max-ping-strikes grpc-max-connection-age
grpc-max-connection-age-grace grpc-restricted-protocol allow-sagemaker sagemaker-port
sagemaker-safe-port-range sagemaker-thread-count allow-vertex-ai vertex-ai-port
vertex-ai-thread-count vertex-ai-default-model allow-metrics allow-gpu-metrics allow-cpu-metrics
metrics-address metrics-port metrics-interval-ms metrics-config trace-config backend-directory
backend-config repoagent-directory cache-config cache-directory rate-limit rate-limit-resource
pinned-memory-pool-byte-size cuda-memory-pool-byte-size cuda-virtual-address-size
min-supported-compute-capability buffer-manager-thread-count host-policy model-load-gpu-limit
strict-model-config response-cache-byte-size trace-file trace-level trace-rate trace-count
trace-log-frequency
"""


def test_all_options_are_known() -> None:
    parser = ArgumentParser()
    COMMAND.arguments(parser)
    known = {word for one in parser._actions for word in one.option_strings}  # pyright: ignore[reportPrivateUsage]
    assert [one for one in OPTIONS.split() if f"--{one}" not in known] == []


def test_what_is_switched_off_is_not_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    off = ("--allow-sagemaker=false", "--grpc-use-ssl=0", "--model-namespacing=False")
    assert printed(capsys, tmp_path, *off)["command"]


def test_a_setting_that_does_nothing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["run", "--model-repository", str(tmp_path), "--print-config"]
    assert main([*told, "--backend-config=python,shm-region-prefix-name=a"]) == Exit.GOOD
    said = capsys.readouterr().err
    assert "--backend-config=python,shm-region-prefix-name=a has no effect here" in said


def test_a_star_is_all_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("b", "a", ".git"):
        (tmp_path / name).mkdir()
    found = printed(capsys, tmp_path, "--model-control-mode=explicit", "--load-model=*")
    assert found["command"]["load"] == ["a", "b"]
