"""Inputs and outputs of a configuration as parameters and results of the language."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..config import Message

_DTYPES = {
    "TYPE_BOOL": "bool",
    "TYPE_UINT8": "u8",
    "TYPE_UINT16": "u16",
    "TYPE_UINT32": "u32",
    "TYPE_UINT64": "u64",
    "TYPE_INT8": "i8",
    "TYPE_INT16": "i16",
    "TYPE_INT32": "i32",
    "TYPE_INT64": "i64",
    "TYPE_FP16": "f16",
    "TYPE_BF16": "bf16",
    "TYPE_FP32": "f32",
    "TYPE_FP64": "f64",
    "TYPE_STRING": "bytes",
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One item of an input or output: `dims` as callers have them, `inner` as the model does."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    inner: tuple[int, ...]
    optional: bool = False
    ragged: bool = False


def tensor(message: Message) -> Tensor:
    """Read a `ModelInput` or `ModelOutput`."""
    dims = tuple(message.dims)
    inner = tuple(message.reshape.shape) if message.HasField("reshape") else dims
    fields = message.DESCRIPTOR.fields_by_name
    return Tensor(
        message.name,
        dtype(message),
        dims,
        inner,
        optional="optional" in fields and message.optional,
        ragged="allow_ragged_batch" in fields and message.allow_ragged_batch,
    )


def dtype(message: Message) -> str:
    """Return the language's name of a field's `data_type`."""
    kind = message.DESCRIPTOR.fields_by_name["data_type"].enum_type
    return _DTYPES[kind.values_by_number[message.data_type].name]


def written(dtype: str, dims: Sequence[int], *, optional: bool = False) -> str:
    """Return a type: `f32[3, _]`, `i64`, `bytes[1]?`."""
    sizes = ", ".join("_" if dim < 0 else str(dim) for dim in dims)
    return (f"{dtype}[{sizes}]" if dims else dtype) + "?" * optional


def reshaped(value: str, before: Sequence[int], after: Sequence[int]) -> str:
    """Return the expression for a value of another shape with the same elements."""
    if tuple(before) == tuple(after):
        return value
    if not after and all(dim == 1 for dim in before):
        return f"{value}[{', '.join('0' for _ in before)}]"
    return f"reshape({value}, [{', '.join(map(str, after))}])"
