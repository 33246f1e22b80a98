"""What the machine has: no GPU here, one that looks so, or a real one."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.runtime.devices.cuda_driver import find_gpu
from headrace.runtime.load_error import LoadError
from headrace.runtime.tensorrt.package import open_package
from tests.runtime.tensorrt.engines import PIPE, SCALED, SIZES, scaled
from tests.runtime.tensorrt.signatures import versions

ROOT = Path(__file__).parents[3]
RTX = find_spec("tensorrt_rtx_bindings") is not None
BODY = "y, z = m(x)\n    return y = y, z = z"


def plan_file(folder: Path, backend: str) -> Path:
    scaled(folder / "m.onnx")
    text = PIPE.format(signature=SCALED, body=BODY, settings=SIZES, batch="")
    (folder / "p.pipe").write_text(text.replace("tensorrt", backend))
    headrace.compile(folder / "p.pipe").save(folder / "p.plan")
    return folder / "p.plan"


def whole(folder: Path, version: str, what: str) -> str:
    command = [sys.executable, "-m", "tests.runtime.tensorrt.whole", str(folder), version, what]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.slow
def test_a_plan_is_built_once_and_served_by_all_that_lies_between(tmp_path: Path) -> None:
    assert whole(tmp_path, versions()[0], "small") == "answered, 1 built\n"


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("rapidocr_onnxruntime") is None, reason="its models are not installed"
)
def test_a_page_is_read_by_three_engines_as_onnx_runtime_reads_it(tmp_path: Path) -> None:
    assert whole(tmp_path, versions()[-2], "ocr") == "answered, 3 built\n"


def test_a_library_that_is_missing_is_named_with_what_to_install(tmp_path: Path) -> None:
    if find_spec("tensorrt") is not None:
        pytest.skip("TensorRT is installed")
    with pytest.raises(
        LoadError, match=r"stage `m`, p.pipe:2:7: .*`tensorrt`, which is not"
    ) as caught:
        headrace.load(plan_file(tmp_path, "tensorrt"))
    assert caught.value.code == "HR502"
    assert caught.value.help is not None
    assert "headrace[tensorrt]" in caught.value.help


@pytest.mark.slow
@pytest.mark.skipif(not RTX, reason="TensorRT for RTX is not installed")
@pytest.mark.skipif(find_gpu(0) is not None, reason="there is a GPU")
def test_without_a_driver_loading_is_refused_and_the_process_lives(tmp_path: Path) -> None:
    script = f"""
import headrace
for _ in range(2):
    try:
        headrace.load({str(plan_file(tmp_path, "tensorrt_rtx"))!r})
    except headrace.runtime.load_error.LoadError as error:
        print(error.code, error.message)
"""
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("HR501 stage `m`") == 2
    assert "CUDA's driver finds no such GPU" in ran.stdout


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["tensorrt", "tensorrt_rtx"])
def test_an_engine_gives_what_onnx_runtime_does(backend: str, tmp_path: Path) -> None:
    if find_gpu(0) is None:
        pytest.skip("there is no GPU")
    try:
        open_package(backend)
    except LoadError as error:
        pytest.skip(error.message)
    with headrace.load(plan_file(tmp_path, backend), engines=tmp_path / "engines") as app:
        for size in (1, 4, 16, 4):
            x = np.arange(size, dtype=np.float32)
            found = [app.p.submit(x=x + row) for row in range(5)]
            for row, one in enumerate(found):
                assert np.allclose(one.result().y, (x + row) * 3, rtol=1e-5)
        with pytest.raises(headrace.Fault, match="`x` has 17 in axis 1"):
            app.p(x=np.ones(17, np.float32))
