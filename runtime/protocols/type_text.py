"""Types from their text, as a server's configuration carries them: the inverse of `str(type)`.

sum     product (("+" | "-") product)*
product atom (("*" | "/" | "%") atom)*
atom    number | name | "_" | "(" sum ")"
"""

import re

from ...dsl.types import (
    ANY_DIM,
    Dim,
    DimArith,
    DimVar,
    DType,
    ListType,
    OptionalType,
    TensorType,
    Type,
)

_TOKEN = re.compile(r"\s*(\d+|\w+|[-+*/%()])")


def read_type(text: str) -> Type:
    """Read `f32[3, H / 4]`, `list<string, 10>?`; ValueError when it is no type."""
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
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != text.replace(" ", ""):
        raise ValueError(f"{text!r} is no dimension")
    dim = _sum(tokens)
    if tokens:
        raise ValueError(f"{text!r} is no dimension: `{tokens[0]}` is too much")
    return dim


def _sum(tokens: list[str]) -> Dim:
    dim = _product(tokens)
    while tokens and tokens[0] in "+-":
        dim = DimArith("+" if tokens.pop(0) == "+" else "-", dim, _product(tokens))
    return dim


def _product(tokens: list[str]) -> Dim:
    dim = _atom(tokens)
    while tokens and tokens[0] in "*/%":
        op = tokens.pop(0)
        dim = DimArith("*" if op == "*" else "/" if op == "/" else "%", dim, _atom(tokens))
    return dim


def _atom(tokens: list[str]) -> Dim:
    token = tokens.pop(0) if tokens else ""
    if token == "(":
        dim = _sum(tokens)
        if not tokens or tokens.pop(0) != ")":
            raise ValueError("a dimension lacks its `)`")
        return dim
    if token.isdigit():
        return int(token)
    if not token.isidentifier():
        raise ValueError(f"`{token}` is no dimension")
    return ANY_DIM if token == "_" else DimVar(token)
