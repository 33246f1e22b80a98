"""ONNX Runtime as it is installed: one package, all of it there, and options that it knows."""

import ctypes
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from headrace.compiler.plan import MemoryPlan, Plan
from headrace.runtime.load import budgets_of
from headrace.runtime.load_error import LoadError
from headrace.runtime.onnx_library import import_runtime, owners, unloadable
from headrace.runtime.onnx_providers import CPU, choose_providers, nodes_on

CAPI = Path(str(onnxruntime.__file__)).parent / "capi"
CUDA_OPTIONS = {
    "device_id",
    "gpu_mem_limit",
    "arena_extend_strategy",
    "cudnn_conv_algo_search",
    "do_copy_in_default_stream",
    "cudnn_conv_use_max_workspace",
    "cudnn_conv1d_pad_to_nc1d",
    "enable_cuda_graph",
    "has_user_compute_stream",
    "user_compute_stream",
    "gpu_external_alloc",
    "gpu_external_free",
    "gpu_external_empty_cache",
    "prefer_nhwc",
    "use_ep_level_unified_stream",
    "use_tf32",
    "fuse_conv_bias",
    "sdpa_kernel",
    "enable_skip_layer_norm_strict_mode",
}
"""What the CUDA library of onnxruntime-gpu 1.31.1 names."""
KEYS = (
    "session.disable_cpu_ep_fallback",
    "session.record_ep_graph_assignment_info",
    "session.intra_op.allow_spinning",
    "session.intra_op_thread_affinities",
    "disable_synchronize_execution_providers",
    "gpu_graph_id",
)


def installed(folder: Path, *names: str) -> None:
    """Make packages as pip leaves them behind, all of which bring one module."""
    for name in names:
        about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")


@pytest.mark.parametrize("other", ["onnxruntime-gpu", "onnxruntime-openvino", "ort-nightly"])
def test_another_package_of_it_in_the_environment_is_refused_with_both_names(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = owners()
    installed(tmp_path, other)
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType] a path
    assert set(owners()) == {*there, other}
    with pytest.raises(LoadError) as caught:
        import_runtime()
    assert caught.value.code == "HR503"
    assert all(name in caught.value.message for name in (*there, other))
    assert f"pip uninstall {' '.join(owners())}" in str(caught.value.help)


def test_packages_that_only_go_with_it_are_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "onnxruntime-extensions", "onnxruntime-genai", "onnxruntime-ep-openvino")
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType] a path
    assert import_runtime() is onnxruntime


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "said"),
    [("", "files of ONNX Runtime are missing"), ("import nowhere", "No module named 'nowhere'")],
)
def test_a_broken_one_is_told_from_none(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "__init__.py").write_text(content)
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from headrace.runtime.onnx_library import import_runtime\n"
        "try:\n    import_runtime()\nexcept Exception as error:\n"
        "    print(error.code, error.message)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("HR502 ")
    assert said in ran.stdout


def test_the_library_knows_every_key_that_it_is_given() -> None:
    (path,) = CAPI.glob("onnxruntime_pybind11_state*.so")
    content = path.read_bytes()
    assert [key for key in KEYS if key.encode() not in content] == []


def test_cuda_is_given_options_that_it_has() -> None:
    (provider,) = choose_providers(
        ["CUDAExecutionProvider"], "gpu:0", False, 4096, limit=1 << 30, graphs=True
    )
    assert isinstance(provider, tuple)
    options = provider[1]
    assert options["gpu_mem_limit"] == 1 << 30
    assert set(options) <= CUDA_OPTIONS
    library = CAPI / "libonnxruntime_providers_cuda.so"
    if library.exists():
        content = library.read_bytes()
        assert [name for name in sorted(CUDA_OPTIONS) if name.encode() not in content] == []


def test_a_gpu_session_is_bound_by_what_the_plan_may_take_of_the_device() -> None:
    def bounds(*memory: tuple[str, str, int | None]) -> dict[str, int]:
        plans = tuple(MemoryPlan(name, device, 1, 1, most, ()) for name, device, most in memory)
        return budgets_of(Plan("", (), (), plans, (), (), ()))

    assert bounds(("p", "gpu:0", 4), ("q", "gpu:0", 9), ("p", "cpu", None)) == {"gpu:0": 9}
    assert bounds(("p", "gpu:0", 4), ("q", "gpu:0", None)) == {}


def test_nodes_are_named_with_where_they_were_placed() -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    node = helper.make_node("Abs", ["x"], ["y"], name="flip")
    graph = helper.make_graph([node], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[CPU])
    if not hasattr(session, "get_provider_graph_assignment_info"):
        pytest.skip(f"onnxruntime {metadata.version('onnxruntime')} does not tell")
    assert nodes_on(session, CPU) == ["`flip` (Abs)"]
    assert nodes_on(session, "CUDAExecutionProvider") == []
    (found,) = session.run(None, {"x": -np.ones(2, np.float32)})
    assert np.asarray(found).tolist() == [1, 1]


def test_a_provider_whose_library_lacks_another_says_which(tmp_path: Path) -> None:
    (tmp_path / "capi").mkdir()
    runtime = SimpleNamespace(__file__=str(tmp_path / "__init__.py"))
    assert unloadable(runtime, "CUDAExecutionProvider") is None, "there is none to load"
    (tmp_path / "capi" / "libonnxruntime_providers_shared.so").symlink_to(
        CAPI / "libonnxruntime_providers_shared.so"
    )
    source = tmp_path / "a.c"
    source.write_text("int nothing_has_this(void);\nint f(void) { return nothing_has_this(); }\n")
    path = tmp_path / "capi" / "libonnxruntime_providers_cuda.so"
    command = ["gcc", "-shared", "-fPIC", "-Wl,-z,now", source, "-o", path]
    subprocess.run(command, check=True)
    assert "nothing_has_this" in str(unloadable(runtime, "CUDAExecutionProvider"))


@pytest.mark.skipif(
    "CUDAExecutionProvider" not in onnxruntime.get_available_providers(),
    reason="needs onnxruntime-gpu",
)
def test_where_cuda_is_missing_that_is_the_error() -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        assert "cannot open shared object" in str(unloadable(onnxruntime, "CUDAExecutionProvider"))
    else:
        pytest.skip("there is a driver")
