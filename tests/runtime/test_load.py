"""Loading a plan: what this machine lacks is said with a code that has a page, and the cure."""

import sys
from collections.abc import Callable

import numpy as np
import pytest

from headrace.compiler.plan import OpSegment
from headrace.dsl.pages import codes, page
from headrace.runtime import load_error
from headrace.runtime.backend import find_backend
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.load_error import LoadError
from headrace.runtime.onnx_library import check_packages
from headrace.runtime.onnx_providers import choose_providers
from headrace.runtime.request import Request
from tests.runtime.plans import HERE, PlanMaker, add_model, block, call, fields

X, Y = fields(x="f32"), fields(y="f32")


def unknown_device(maker: PlanMaker) -> None:
    maker.onnx("m", add_model(1.0), X, Y, device="npu:0")


def absent_gpu(maker: PlanMaker) -> None:
    maker.onnx("m", add_model(1.0), X, Y, device="gpu:0")


def broken_source(maker: PlanMaker) -> None:
    maker.python("f", "def f(:\n", X, Y)


def broken_model(maker: PlanMaker) -> None:
    maker.onnx("m", b"no model", X, Y)


def unknown_op(maker: PlanMaker) -> None:
    maker.segments.append(OpSegment("m", "image.dream", (), HERE))


@pytest.mark.parametrize(
    ("spoil", "code", "message", "help"),
    [
        (unknown_device, "HR501", "asks for the device `npu:0`", "schedule"),
        (absent_gpu, "HR502", "stage `m`, toy.pipe:10:5: the plan asks for gpu:0", "headrace[gpu]"),
        (broken_source, "HR504", "toy.py cannot be loaded: SyntaxError", None),
        (broken_model, "HR505", "stage `m`, toy.pipe:10:5: ONNX Runtime does not load", None),
        (unknown_op, "HR506", "the op `image.dream`", "compile the sources again"),
    ],
)
def test_what_cannot_be_loaded_is_refused(
    spoil: Callable[[PlanMaker], None], code: str, message: str, help: str | None
) -> None:
    maker = PlanMaker()
    spoil(maker)
    with pytest.raises(LoadError) as caught:
        Engine(maker.plan())
    assert caught.value.code == code
    assert message in caught.value.message
    assert (help or "") in (caught.value.help or "")


def test_each_kind_of_segment_names_a_backend_that_is_found() -> None:
    assert find_backend("onnx").kinds == ("onnx",)
    assert find_backend("python").kinds == find_backend("op").kinds == ()


def test_what_was_opened_is_closed_when_a_later_stage_does_not_load() -> None:
    maker = PlanMaker()
    maker.python("f", "def f(x):\n    return x\n", X, Y)
    broken_model(maker)
    before = set(sys.modules)
    with pytest.raises(LoadError, match="stage `m`"):
        Engine(maker.plan())
    assert not [one for one in set(sys.modules) - before if "headrace_source" in one]


def test_two_packages_of_one_runtime_are_refused() -> None:
    check_packages(["onnxruntime"])
    with pytest.raises(LoadError, match="are both installed") as caught:
        check_packages(["onnxruntime", "onnxruntime-gpu"])
    assert caught.value.code == "HR503"


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    used = {value for value in vars(load_error).values() if str(value).startswith("HR5")}
    others = ("HR511", "HR512", "HR513")  # of calls and of tests
    assert sorted(used) == [one for one in codes() if one.startswith("HR5") and one not in others]
    assert all(page(code).title for code in used)


def test_equal_models_share_a_session_and_sources_a_module() -> None:
    maker = PlanMaker()
    first, second = (maker.onnx(name, add_model(1.0), X, Y) for name in ("a", "b"))
    maker.pipeline(
        "p", X, fields(a="f32", b="f32"),
        block([0], [call(first, [0], [1]), call(second, [1], [2])], [1, 2]),
    )  # fmt: skip
    engine = Engine(maker.plan(), EngineConfig(workers=1))
    one, other = (stage._session for stage in engine._stages.all)  # type: ignore[attr-defined] shared, which nobody sees
    assert one is other
    outputs = engine.call(Request("p", {"x": 1.0})).outputs  # type: ignore[dict-item]
    assert [float(np.asarray(one)) for one in outputs.values()] == [2, 3]
    engine.close()


def test_closing_forgets_the_modules_of_sources() -> None:
    maker = PlanMaker()
    maker.python("f", "def f(x):\n    return x\n", X, Y)
    before = set(sys.modules)
    engine = Engine(maker.plan())
    assert len([name for name in set(sys.modules) - before if "headrace_source" in name]) == 1
    engine.close()
    assert not [name for name in sys.modules if "headrace_source" in name and name not in before]


ALL_PROVIDERS = ("TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider")


def test_a_gpu_is_asked_for_by_number_and_the_cpu_is_never_a_second_choice() -> None:
    arena = {"arena_extend_strategy": "kSameAsRequested"}
    cuda = ("CUDAExecutionProvider", {"device_id": 1, **arena, "use_tf32": 0})
    assert choose_providers(ALL_PROVIDERS, "gpu:1", tensorrt=False) == [cuda]
    first, second = choose_providers(ALL_PROVIDERS, "gpu:1", tensorrt=True)
    assert first == ("TensorrtExecutionProvider", {"device_id": 1})
    assert second == cuda
    assert choose_providers(ALL_PROVIDERS, "cpu", tensorrt=True) == ["CPUExecutionProvider"]


def test_an_engine_that_a_schedule_names_is_for_gpus_and_must_be_there() -> None:
    asked = choose_providers(ALL_PROVIDERS, "gpu:0", tensorrt=False, engine="tensorrt")
    assert asked == choose_providers(ALL_PROVIDERS, "gpu:0", tensorrt=True)
    with pytest.raises(LoadError, match="NvTensorRTRTXExecutionProvider"):
        choose_providers(ALL_PROVIDERS, "gpu:0", tensorrt=False, engine="tensorrt_rtx")
    with pytest.raises(
        LoadError, match="`onnx_tensorrt` runs models on GPUs, and this one is on cpu"
    ) as caught:
        choose_providers(ALL_PROVIDERS, "cpu", tensorrt=False, engine="tensorrt")
    assert caught.value.code == "HR501"


@pytest.mark.parametrize(
    ("available", "tensorrt", "missing"),
    [
        (("CPUExecutionProvider",), False, "CUDAExecutionProvider"),
        (ALL_PROVIDERS[1:], True, "TensorrtExecutionProvider"),
    ],
)
def test_a_provider_that_is_missing_is_an_error_that_names_the_extra(
    available: tuple[str, ...], tensorrt: bool, missing: str
) -> None:
    with pytest.raises(LoadError, match=missing) as caught:
        choose_providers(available, "gpu:0", tensorrt)
    assert caught.value.help is not None
    assert "headrace[gpu" in caught.value.help
