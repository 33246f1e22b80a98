"""What a script's names hold while it is read: what is known, and expressions for what is not."""

import ast
from dataclasses import dataclass, field
from typing import Any, TypeAlias


class Kept(Exception):
    """The script stays a Python stage: `reason` is why, `line` where in its file."""

    def __init__(self, node: ast.AST | None, reason: str) -> None:
        self.line: int = getattr(node, "lineno", 1)
        self.reason = reason
        super().__init__(reason)


class NeedsWhole(Exception):
    """A script looks into a tensor: its rows are no matter of their own."""


@dataclass(frozen=True, slots=True)
class Known:
    """A value that is known beforehand: text, numbers, what configurations say."""

    value: Any  # Any: of Python


@dataclass(frozen=True, slots=True)
class Array:
    """An array of NumPy's, or one element of it where it has no axes."""

    code: str
    dtype: str
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A `pb_utils.Tensor`."""

    name: str
    array: Array


@dataclass(frozen=True, slots=True)
class Asking:
    """An `InferenceRequest` that a script makes."""

    model: str
    version: int
    wanted: tuple[str, ...]
    inputs: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model has answered to a script; an error would have ended the request."""

    tensors: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Response:
    """An `InferenceResponse` that a script gives; `failed` has no tensors."""

    tensors: tuple[Tensor, ...]
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """Whether an answer has an error: it has none, for else nothing is gone on with."""

    negated: bool = False


@dataclass(slots=True, eq=False)
class Listed:
    """A list. With `each` it holds so many items for each request, of which one is read; one that
    is `fixed` outlives a request."""

    items: list["Value"]
    each: bool = False
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """Something by its name: a module, or a member of something."""

    name: str


@dataclass(frozen=True, slots=True)
class Method:
    """A member of a value that is called."""

    owner: "Value"
    name: str


@dataclass(frozen=True, slots=True)
class Defined:
    """A function or method of the script; `own` is what it is a method of."""

    node: ast.FunctionDef | ast.AsyncFunctionDef = field(compare=False)
    own: "Value | None" = None


@dataclass(frozen=True, slots=True)
class Opaque:
    """What nothing is known of; who makes anything of it is kept for this reason."""

    reason: str


class Itself:
    """`self`."""


class OneRequest:
    """The request that is read; it stands for all."""


ITSELF, REQUEST = Itself(), OneRequest()

Value: TypeAlias = (
    Known
    | Array
    | Tensor
    | Asking
    | Answer
    | Response
    | Failed
    | Listed
    | Part
    | Method
    | Defined
    | Opaque
    | Itself
    | OneRequest
)


def fixed(value: Value) -> Value:
    """Return a value whose lists nothing may be added to."""
    if isinstance(value, Listed):
        return Listed([fixed(one) for one in value.items], value.each, fixed=True)
    return value


def plain(value: Value) -> Any:  # Any: of Python
    """Return what is known, lists and all; raises ValueError where something is not."""
    match value:
        case Known(found):
            return found
        case Listed(items):
            return [plain(one) for one in items]
        case _:
            raise ValueError
