"""The form of values in shared memory: a tree that says what there is, and what it is of behind it.

    [ tree, `tree` bytes | to 64 | leaf | leaf | ... ]        `size` bytes in all

A node is a tag and what the tag needs. Leaves have no addresses: they follow one another in the
order of the tree, those of arrays at multiples of 64 bytes, so that no two can overlap. The tree is
copied before it is read, and so is every length in a leaf: what the other side writes meanwhile
changes no decision. Arrays of more than `SMALL` bytes are not copied.

What a function returns may be anything. What can be no result is sent as the name of its type, and
arrives as a stand-in of that name, so that it is refused in the same words as in one process.
"""

import struct
from enum import IntEnum
from typing import Any, Final

import numpy as np

from ...dsl.types import DType
from ...stdlib.dtypes import to_numpy

SMALL: Final = 1 << 16
ALIGN: Final = 64

TREE: Final = 1 << 26
"""Bytes of a tree."""

NODES: Final = 1 << 22
DEPTH: Final = 32
RANK: Final = 64
NAME: Final = 100


class Tag(IntEnum):
    """What a node is, and what comes after it."""

    NONE = 0
    ARRAY = 1  # dtype, rank, sizes; a leaf
    SCALAR = 2  # dtype, the bytes of it
    STRING = 3  # length; a leaf
    BYTES = 4  # length; a leaf
    LIST = 5  # length; so many nodes, or RUN
    TUPLE = 6  # as LIST
    RUN = 7  # type; a leaf of numbers, or one of lengths and one of text
    OBJECTS = 8  # 0, rank, sizes; a LIST
    INTEGER = 9  # length, the bytes of it
    FLOAT = 10  # itself
    BOOL = 11  # itself
    OTHER = 12  # length of a name, whether it is sized, size, name


# Any: np.dtype is generic in its scalar type
DTYPES: Final[tuple["np.dtype[Any]", ...]] = (
    *(to_numpy(one) for one in DType if one not in (DType.STRING, DType.BYTES)),
    # these can be no result; they are refused by their own names
    np.dtype(np.complex64),
    np.dtype(np.complex128),
    np.dtype(np.longdouble),
)
RUNS: Final[tuple[type, ...]] = (str, bytes, float, int, bool)
NUMBERS: Final = {float: np.dtype("<f8"), int: np.dtype("<i8"), bool: np.dtype("?")}
LENGTH: Final = np.dtype("<u8")

COUNTED: Final = struct.Struct("<BQ")
SHAPED: Final = struct.Struct("<BBB")
REAL: Final = struct.Struct("<Bd")
FLAG: Final = struct.Struct("<B?")
NAMED: Final = struct.Struct("<BB?Q")


def padded(size: int, align: int = ALIGN) -> int:
    """Return the least multiple of `align` that is no less."""
    return -(-size // align) * align
