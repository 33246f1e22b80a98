"""A model's signature read from its file, or a declared one compared with the file.

A declared name may stand for a size that the file leaves open, or, in a result, for one that it
fixes. A parameter's size that the file fixes must be written as that number; `_` takes it over.
Equal names may be declared for sizes that the file names differently: files mislead.
"""

import re
from collections.abc import Callable, Sequence

from ...dsl import ast
from ...dsl.linear import variables
from ...dsl.source import Span
from ...dsl.types import ANY_DIM, Dim, DimVar, DType, Field, OptionalType, Signature, TensorType
from ..dimensions import type_dims
from ..signatures import FileDim, FileSignature, FileTensor
from .agree import bare
from .model_axes import Axes, matched
from .outside_names import outside_names
from .problems import Problems


def item_signature(
    item: ast.Model, found: FileSignature, axes: Axes, problems: Problems
) -> Signature | None:
    """Return the file's signature of one item, with names that the language can write."""
    before = problems.errors
    names = _Names()
    params = _fields(item, found.required_inputs, axes.inputs, names, problems)
    results = _fields(item, found.outputs, axes.outputs, names, problems)
    return None if problems.errors > before else Signature(params, results)


def match_file(
    item: ast.Model,
    declared: Signature,
    found: FileSignature,
    axes: Axes,
    problems: Problems,
) -> tuple[Signature, tuple[str, ...], tuple[str, ...]] | None:
    """Compare a declared signature with the file; every difference is a mistake of its own.

    Return the signature with what the file fixes of `_`, and the file's names in its order.
    """
    before = problems.errors
    compare = _Comparison(item, declared, found, problems)
    inputs = compare.count("input", item.params or (), compare.inputs())
    outputs = compare.count("output", item.results or (), compare.outputs())
    if problems.errors > before:
        return None
    assert item.params is not None
    assert item.results is not None
    known = {v for f in declared.params for dim in type_dims(f.type) for v in variables(dim)}
    params = compare.all(item.params, declared.params, inputs, axes.inputs, _is_name)
    results = compare.all(
        item.results, declared.results, outputs, axes.outputs, lambda dim: dim in known
    )
    if problems.errors > before:
        return None
    return (
        Signature(params, results),
        tuple(one.name for one in inputs),
        tuple(one.name for one in outputs),
    )


class _Comparison:
    """One model's declared signature beside its file's."""

    def __init__(
        self, item: ast.Model, declared: Signature, found: FileSignature, problems: Problems
    ) -> None:
        self._item, self._declared, self._found = item, declared, found
        self._problems = problems
        self._notes = (f"declared: {declared}", f"the file: {found}")

    def inputs(self) -> list[FileTensor]:
        """Return the file's inputs without those that have a default and are not declared."""
        pairs = zip(outside_names(self._item.params), self._declared.params, strict=False)
        declared = dict(pairs)
        for one in self._found.required_inputs:
            if one.name in declared and isinstance(declared[one.name].type, OptionalType):
                self._report(
                    "HR303",
                    f"`{one.name}` is declared optional, but the file needs it",
                    self._item.name.span,
                )
        return [one for one in self._found.inputs if not one.optional or one.name in declared]

    def outputs(self) -> Sequence[FileTensor]:
        """Return the file's outputs: those that are declared, where each is by the file's name."""
        names = outside_names(self._item.results)
        by_name = {one.name: one for one in self._found.outputs}
        if all(name in by_name for name in names):
            return [by_name[name] for name in names]
        return self._found.outputs

    def count(
        self, what: str, fields: Sequence[ast.Param], tensors: Sequence[FileTensor]
    ) -> list[FileTensor]:
        """Pair fields with tensors; there must be as many of one as of the other."""
        if len(fields) != len(tensors):
            listed = ", ".join(f"`{one.name}`" for one in tensors)
            self._report(
                "HR303",
                f"`{self._item.name.text}` declares {len(fields)} {what}"
                f"{'s' * (len(fields) != 1)}, but the file has {len(tensors)}: {listed}",
                self._item.name.span,
            )
        return matched(outside_names(fields), tensors)

    def all(
        self,
        params: Sequence[ast.Param],
        fields: Sequence[Field],
        tensors: Sequence[FileTensor],
        axes: Sequence[int | None],
        must_be_open: Callable[[Dim], bool],
    ) -> tuple[Field, ...]:
        rows = zip(params, fields, tensors, axes, strict=True)
        compared: list[Field] = []
        for param, field, tensor, axis in rows:
            type = self._one(param.type.span, field, tensor, axis, must_be_open)
            optional = isinstance(field.type, OptionalType)
            compared.append(Field(field.name, OptionalType(type) if optional else type))
        return tuple(compared)

    def _one(
        self,
        span: Span,
        field: Field,
        tensor: FileTensor,
        axis: int | None,
        must_be_open: Callable[[Dim], bool],
    ) -> TensorType:
        type = bare(field.type)
        assert isinstance(type, TensorType)  # `model_items` lets nothing else through
        wanted = DType.STRING if type.dtype is DType.BYTES else type.dtype
        if tensor.dtype is not wanted:
            dtype = tensor.dtype.value if tensor.dtype is not None else "no dtype of the language"
            message = f"`{field.name}` is declared {type.dtype.value}, but the file has {dtype}"
            self._report("HR304", message, span)
        if tensor.dims is None:
            return type
        dims = _without(tensor.dims, axis)
        if len(dims) != len(type.dims):
            self._rank(span, field, type, tensor, axis)
            return type
        merged = [
            self._size(span, field, i, dim, size, must_be_open)
            for i, (dim, size) in enumerate(zip(type.dims, dims, strict=True))
        ]
        return TensorType(type.dtype, tuple(merged))

    def _rank(
        self, span: Span, field: Field, type: TensorType, tensor: FileTensor, axis: int | None
    ) -> None:
        assert tensor.dims is not None
        count, has = len(type.dims), len(tensor.dims)
        help = None
        if axis is None and has == count + 1 and self._item.batch is None:
            if tensor.dims[0] == 1 and self._item.params:
                first = self._item.params[0].name.text
                help = (
                    f"if the model may run several items at once, add `batch axis "
                    f"{{ {first} = 0 }}`; else write all axes"
                )
            else:
                help = "write all axes of the file"
        elif axis is not None and has == count:
            help = "add `batch none`, if the model runs one item at a time"
        beside = " beside the batch" if axis is not None else ""
        self._report(
            "HR305",
            f"`{field.name}` is declared with {_axes(count)}, but the file has "
            f"{_axes(has - (axis is not None))}{beside}",
            span,
            help,
        )

    def _size(
        self,
        span: Span,
        field: Field,
        place: int,
        dim: Dim,
        size: FileDim,
        must_be_open: Callable[[Dim], bool],
    ) -> Dim:
        if not isinstance(size, int) or dim == size:
            return dim
        if dim == ANY_DIM:
            return size
        if isinstance(dim, int) or must_be_open(dim):
            self._report(
                "HR306",
                f"dimension {place} of `{field.name}` is declared `{dim}`, but the file fixes it "
                f"at {size}",
                span,
                f"write {size}",
            )
        return dim

    def _report(self, code: str, message: str, span: Span, help: str | None = None) -> None:
        self._problems.error(code, message, span, notes=self._notes, help=help)


class _Names:
    """Names of a file as identifiers, each its own."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        if name not in self._given:
            clean = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "n"
            clean = clean if not clean[0].isdigit() else f"n{clean}"
            taken = set(self._given.values())
            unique, count = clean, 2
            while unique in taken:
                unique, count = f"{clean}_{count}", count + 1
            self._given[name] = unique
        return self._given[name]


def _fields(
    item: ast.Model,
    tensors: Sequence[FileTensor],
    axes: Sequence[int | None],
    names: _Names,
    problems: Problems,
) -> tuple[Field, ...]:
    fields: list[Field] = []
    own = _Names()
    for tensor, axis in zip(tensors, axes, strict=True):
        if tensor.dtype is None or tensor.dims is None:
            problems.error(
                "HR321",
                f"the file does not say what `{tensor.name}` is: {tensor}",
                item.location.span,
                help="declare the signature: `(x: f32[...]) -> (y: f32[...])`",
            )
            continue
        dims = tuple(_named(dim, names) for dim in _without(tensor.dims, axis))
        fields.append(Field(own(tensor.name), TensorType(tensor.dtype, dims)))
    return tuple(fields)


def _named(dim: FileDim, names: _Names) -> Dim:
    match dim:
        case int():
            return dim
        case str():
            return DimVar(names(dim))
        case None:
            return ANY_DIM


def _without(dims: Sequence[FileDim], axis: int | None) -> list[FileDim]:
    return [dim for i, dim in enumerate(dims) if i != axis]


def _is_name(dim: Dim) -> bool:
    return not isinstance(dim, int)


def _axes(count: int) -> str:
    return f"{count} ax{'is' if count == 1 else 'es'}"
