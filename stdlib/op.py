"""What an op is: a signature, a shape rule, a reference implementation and an ONNX lowering.

An op is written for one item; the batch axis exists only in a lowering, through the `Emitter`.
One op is one file `<family>/<op>.py` that defines `OP`; `catalog.py` finds it by listing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..dsl.dims import Dims
from ..dsl.types import DType, Type

Array: TypeAlias = "NDArray[np.generic]"
Item: TypeAlias = "Array | np.generic | str | bytes | list[Item] | None"
"""A value of one item at run time: an ndarray (numeric scalars are 0-d arrays or NumPy scalars;
a tensor of strings or bytes is an object array), `str`, `bytes`, a list of items, or None."""

Literal: TypeAlias = "bool | int | float | str | bytes | DType | Array | tuple[Literal, ...] | None"
"""A value known when compiling."""


class Effects(Enum):
    """What the compiler may do with a call."""

    PURE = "pure"  # may be moved, merged, dropped, folded
    OPAQUE = "opaque"  # runs exactly as often and in the order written


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of an op.

    `constant` asks for a value known when compiling (an axis, a dtype, a mode). A parameter with
    `has_default` may be left out; the default then stands as the argument's literal.
    `variadic` (last only) takes all that follows. A `keyword` parameter is given by name only,
    so positions skip it: `concat(a, b, axis = 1)` has the parameters `axis` (keyword) and `parts`
    (variadic), and a call's inputs are `axis, a, b`.
    """

    name: str
    doc: str
    constant: bool = False
    has_default: bool = False
    default: Literal = None
    variadic: bool = False
    keyword: bool = False


@dataclass(frozen=True, slots=True)
class Argument:
    """What is known of an argument when types are checked. `known` tells a literal None apart."""

    type: Type
    known: bool = False
    literal: Literal = None


class OpTypeError(Exception):
    """A shape rule refuses an argument: names the parameter and says what it wants.

    `parameter` is None when no single argument is to blame. The checker turns this into a
    diagnostic at the argument's span, so `wants` reads after "`name` wants ...".
    """

    def __init__(self, parameter: str | None, wants: str, help: str | None = None) -> None:
        self.parameter, self.wants, self.help = parameter, wants, help
        super().__init__(f"{parameter}: {wants}")


class Decline(Exception):
    """A lowering or rule does not apply here; the text is shown by `explain --why-not`."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument of a lowering: a tensor of the ONNX graph, or a literal (`tensor` is then None).

    `batched` says that the tensor has the batch axis in front of the item's own axes.
    """

    type: Type
    tensor: str | None = None
    literal: Literal = None
    batched: bool = False


class Emitter(Protocol):
    """What a lowering writes ONNX nodes with; names are made unique by the emitter."""

    @property
    def batched(self) -> bool:
        """Whether results must carry the batch axis (true when any operand is batched)."""
        ...

    @property
    def opset(self) -> int:
        """The version of the default domain that the graph is written in, 13 or later."""
        ...

    def node(
        self, op_type: str, inputs: Sequence[str], outputs: int = 1, **attributes: object
    ) -> tuple[str, ...]:
        """Add a node of the default domain and return the names of its outputs."""
        ...

    def constant(self, value: Array) -> str:
        """Add an initialiser (equal ones are shared) and return its name."""
        ...

    def tensor(self, operand: Operand, dtype: DType | None = None) -> str:
        """Return the operand as a tensor, a literal becoming an initialiser of `dtype`."""
        ...

    def axis(self, axis: int, rank: int) -> int:
        """Map an item's axis (negative counts from the end) to the graph's axis."""
        ...


@dataclass(frozen=True, slots=True)
class Kernel:
    """How generated code computes one element: the lines of an op in a kernel.

    `expression` is C++ over the arguments `{0}`, `{1}`, ..., literals among them, each as what its
    dtype is computed as: f16 and bf16 as f32, small integers as i32. With `wraps` integers have no
    sign there, so that they may overflow. The result is rounded to its dtype; with `converts` it is
    of the first argument's before, and an expression that gives a bool says so with `tells`. With
    `selects` the first argument is a bool, whatever the others are. `exact`: the bits are those of
    the reference. `requires` raises Decline where code cannot do what the reference does; it is
    given the dtype and the literal of each argument, None where that is made at run time.

    `real_exp(x)` and others of its kind are functions of C's library; kernel.cu.j2 has the rest.
    """

    expression: str
    exact: bool = True
    wraps: bool = False
    tells: bool = False
    converts: bool = False
    selects: bool = False
    requires: Callable[[DType, "Sequence[Array | None]"], None] | None = None


@dataclass(frozen=True, slots=True)
class Fold:
    """How generated code reduces axes, which are the op's second argument, beside `keepdims`.

    `expression` takes the next element `{1}` to what there is, `{0}`, that begins as `start` says;
    `end` makes the result of what there is in the end and the `{n}` elements. With `sums` numbers
    are added in f64, and integers without a sign.
    """

    expression: str
    start: str  # "zero", "lowest" or "highest"
    sums: bool = False
    end: str = "{0}"
    exact_for: Callable[[DType], bool] = lambda _: True


TypeRule: TypeAlias = Callable[[Sequence[Argument], Dims], tuple[Type, ...]]
Reference: TypeAlias = Callable[..., "Item | tuple[Item, ...]"]
Lowering: TypeAlias = Callable[[Emitter, Sequence[Operand], Sequence[Type]], tuple[str, ...]]
Sample: TypeAlias = "tuple[Item | Literal, ...]"
Samples: TypeAlias = Callable[[np.random.Generator], Sequence[Sample]]


@dataclass(frozen=True, slots=True)
class Op:
    """A stdlib op.

    Attributes:
        name: family and name (`image.resize`); ops of family `core` are also known bare (`cast`).
        summary: one sentence for the docs.
        params: parameters in order; a call may give them by position or name.
        results: result names; one for most.
        types: the shape rule, from arguments to result types; raises OpTypeError. Called with
            one argument per parameter, defaults filled in, none of them of unknown type.
        reference: called with one value per parameter, defaults filled in; returns the result or
            a tuple of results. Must not change its arguments. Defines the op's meaning. A literal
            is passed as it is: a Python number or a tuple of them takes the dtype of the other
            side, and i64 or f32 where there is none.
        lowering: writes the op as ONNX nodes; raises Decline with the reason when it cannot.
        exact: the lowering gives the same bits as the reference; but where an op chooses among
            values, a zero may come out with the other sign.
        tolerance: how far the results of a lowering that is not exact may be from the reference's
            in f32, relative or absolute, whichever is more; in f64 a millionth of it.
        kernel: how generated code computes it; None where it cannot.
        effects: see Effects.
        example: a runnable line for the docs.
        samples: makes argument lists that the conformance tests try: arrays, lists, strings and
            bytes stand for values made at run time; Python numbers, and all that goes to a
            `constant` parameter, for literals. Defaults at the end may be left out.
    """

    name: str
    summary: str
    params: tuple[Param, ...]
    results: tuple[str, ...]
    types: TypeRule
    reference: Reference
    lowering: Lowering | None = None
    exact: bool = True
    tolerance: float = 1e-6
    effects: Effects = Effects.PURE
    example: str = ""
    samples: Samples | None = None
    kernel: Kernel | Fold | None = None

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]
