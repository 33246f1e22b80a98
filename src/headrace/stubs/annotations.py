"""What a pipeline takes and gives, as annotations of Python."""

from typing import assert_never

from ..dsl.types import DType, ListType, OptionalType, TensorType, Type, UnknownType

_SCALARS = {
    DType.BOOL: "np.bool_",
    DType.I8: "np.int8",
    DType.I16: "np.int16",
    DType.I32: "np.int32",
    DType.I64: "np.int64",
    DType.U8: "np.uint8",
    DType.U16: "np.uint16",
    DType.U32: "np.uint32",
    DType.U64: "np.uint64",
    DType.F16: "np.float16",
    DType.BF16: "Any",  # of ml_dtypes, which has no type for it
    DType.F32: "np.float32",
    DType.F64: "np.float64",
}
_BYTES = "bytes | bytearray | memoryview"


def taken(kind: Type, *, many: bool) -> str:
    """Return the annotation of an input; with `many` of the rows of a `batch` pipeline."""
    match kind:
        case TensorType(dtype, dims) if dims or many:
            rank = len(dims) + many
            match dtype:
                case DType.STRING:
                    return f"NDArray[np.object_] | {_nested('str', rank)}"
                case DType.BYTES:
                    return f"NDArray[np.object_] | {_nested(_BYTES, rank)}"
                case _:
                    return f"stubs.Tensor[{_SCALARS[dtype]}]"
        case TensorType(dtype):
            return _taken_scalar(dtype)
        case ListType() | OptionalType() if many:
            return f"Sequence[{taken(kind, many=False)}]"
        case ListType(item):
            return f"Sequence[{taken(item, many=False)}]"
        case OptionalType(item):
            return f"{taken(item, many=False)} | None"
        case UnknownType():
            raise AssertionError("a plan holds no unknown types")
        case _:
            assert_never(kind)


def given(kind: Type, *, many: bool) -> str:
    """Return the annotation of a result; with `many` of the rows of a `batch` pipeline."""
    match kind:
        case TensorType(DType.STRING | DType.BYTES, dims) if dims or many:
            return "NDArray[np.object_]"
        case TensorType(DType.STRING):
            return "str"
        case TensorType(DType.BYTES):
            return "bytes"
        case TensorType(dtype, dims) if dims or many:
            return f"NDArray[{_SCALARS[dtype]}]"
        case TensorType(dtype):
            return _SCALARS[dtype]
        case ListType() | OptionalType() if many:
            return f"list[{given(kind, many=False)}]"
        case ListType(item):
            return f"list[{given(item, many=False)}]"
        case OptionalType(item):
            return f"{given(item, many=False)} | None"
        case UnknownType():
            raise AssertionError("a plan holds no unknown types")
        case _:
            assert_never(kind)


def _nested(item: str, rank: int) -> str:
    return f"Sequence[{_nested(item, rank - 1)}]" if rank else item


def _taken_scalar(dtype: DType) -> str:
    match dtype:
        case DType.STRING:
            return "str"
        case DType.BYTES:
            return _BYTES
        case DType.BF16:
            return "float"
        case DType.BOOL:
            return "bool | np.bool_"
        case _:
            return f"{'float' if dtype.is_float else 'int'} | {_SCALARS[dtype]}"
