"""Types from their text, as a server's configuration carries them: the inverse of `str(type)`."""

from ...dsl.types import ANY_DIM, Dim, DType, ListType, OptionalType, TensorType, Type


def read_type(text: str) -> Type:
    """Read `f32[3, H]`, `list<string, 10>?`; ValueError when it is no type.

    Dimensions that are not numbers become `_`: what is bound to what, the server knows.
    """
    if text.endswith("?"):
        return OptionalType(read_type(text[:-1]))
    if text.startswith("list<") and text.endswith(">"):
        item, comma, maximum = text[5:-1].rpartition(", ")
        if comma and maximum.isdigit():
            return ListType(read_type(item), int(maximum))
        return ListType(read_type(text[5:-1]))
    dtype, bracket, dims = text.partition("[")
    if bracket and not dims.endswith("]"):
        raise ValueError(f"{text!r} is no type")
    sizes = dims[:-1].split(", ") if bracket else []
    return TensorType(DType(dtype), tuple(map(_read_dim, sizes)))


def _read_dim(text: str) -> Dim:
    return int(text) if text.isdigit() else ANY_DIM
