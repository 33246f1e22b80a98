"""NVRTC takes the text of kernels, for GPUs that are not here."""

from itertools import product

import pytest

from headrace.dsl.types import DType
from headrace.runtime.kernels.nvrtc import Nvrtc, find_nvrtc
from headrace.runtime.load_error import LoadError
from tests.compiler.kernels.made import kernel_of
from tests.compiler.kernels.test_bits import all_ops

ARCHITECTURES = ("sm_72", "sm_87", "sm_90", "sm_110")


def nvrtc_for(architecture: str) -> Nvrtc:
    try:
        return find_nvrtc(architecture)
    except LoadError as error:
        pytest.skip(f"{error.message}; {error.help}")


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_op_has_code_for_a_gpu(architecture: str) -> None:
    nvrtc = nvrtc_for(architecture)
    dtypes = (DType.I8, DType.U64, DType.F16, DType.F32)
    for dtype, exact in product(dtypes, (True, False)):
        maker, outputs = all_ops(dtype, exact=exact)
        if outputs:
            code = nvrtc.build(kernel_of(maker, *outputs).text, architecture)
            assert code.startswith(b"\x7fELF")
            assert b"kernel_flat" in code


@pytest.mark.slow
def test_a_text_that_is_no_code_is_refused() -> None:
    nvrtc = nvrtc_for("sm_90")
    with pytest.raises(LoadError, match=r"does not take a generated kernel: kernel\.cu"):
        nvrtc.build("nonsense", "sm_90")


def test_an_architecture_that_nothing_here_knows_is_told() -> None:
    with pytest.raises(LoadError, match="sm_1 needs NVRTC of CUDA 9 with code for it") as caught:
        find_nvrtc("sm_1", 9)
    assert caught.value.help is not None
    assert "pip install nvidia-cuda-nvrtc" in caught.value.help
