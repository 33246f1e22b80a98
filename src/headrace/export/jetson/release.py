"""What a release of JetPack has: facts of NVIDIA's documents, none of them tried on a board here.

`constraints-RELEASE.txt.j2` are versions of all packages that the plan may need with wheels for its
processor, Python and C library; `tests/export/test_jetson.py` asks the index for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Release:
    """`python` is what runs headrace, which needs 3.11: the board's own where that is as new
    (`own`), else one beside it, which cannot import the TensorRT bindings of the system. `glibc` is
    the C library's minor version, `sms` are the compute capabilities of the boards' GPUs."""

    name: str
    l4t: str
    image: str
    python: str
    own: bool
    glibc: int
    cuda: str
    tensorrt: str
    cupy: str
    boards: str
    sms: tuple[str, ...]


RELEASES: Final[Mapping[str, Release]] = MappingProxyType(
    {
        one.name: one
        for one in (
            Release(
                "5.1",
                "35.4.1",
                "nvcr.io/nvidia/l4t-jetpack:r35.4.1",
                "3.11",
                False,
                31,
                "11.4",
                "8.5.2",
                "cupy-cuda11x",
                "Xavier and Orin",
                ("72", "87"),
            ),
            Release(
                "6.2",
                "36.4.3",
                "nvcr.io/nvidia/l4t-jetpack:r36.4.0",
                "3.11",
                False,
                35,
                "12.6",
                "10.3",
                "cupy-cuda12x",
                "Orin",
                ("87",),
            ),
            Release(
                "7.2",
                "39.1",
                "ubuntu:24.04",
                "3.12",
                True,
                39,
                "13.2",
                "10.16",
                "cupy-cuda13x",
                "Orin and Thor",
                ("87", "110"),
            ),
        )
    }
)
