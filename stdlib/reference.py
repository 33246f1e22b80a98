"""The documentation of all ops, written from the catalog: docs/stdlib.md.

Run `python -m headrace.stdlib.reference > docs/stdlib.md` when an op has changed.
"""

import sys

from ..dsl.types import DType
from .catalog import BARE_FAMILY, Catalog, Family, load_catalog
from .op import Literal, Op, Param

INTRODUCTION = """\
# Standard library

What pipelines are made of beside models and functions. `use image` makes the ops of a family
known as `image.resize(...)`; those of `core` need neither `use` nor prefix.

Every op speaks of one item. Shapes are checked when compiling as far as they are known: a size
given as a literal is known, one made at run time gives a new dimension. dtypes are never
converted implicitly; a number literal takes the dtype of the other side, and is i64 or f32 where
there is none. A list of tensors of one shape is taken where a tensor is.

*In models* says whether an op next to a model can become part of it, and how far the result may
then be from that of the op alone: not at all (a zero that is chosen among values may lose its
sign), or by so much, relative or absolute, whichever is more (of f32; in f64 a millionth of it).
The compiler decides, and `headrace explain --why-not` says why an op was left outside."""


def markdown(catalog: Catalog) -> str:
    """Return the page as Markdown."""
    families = [found for name in catalog.families if (found := catalog.family(name)) is not None]
    families.sort(key=lambda family: (family.name != BARE_FAMILY, family.name))
    contents = "\n".join(f"* [{one.name}](#{one.name}): {_listed(one)}" for one in families)
    sections = [INTRODUCTION, contents, *(_family(one) for one in families)]
    return "\n\n".join(sections) + "\n"


def signature(op: Op) -> str:
    """Return how an op is called: `image.pad_to(image, height, width, value = 0)`."""
    positional = [_shown(param) for param in op.params if not param.keyword]
    keyword = [_shown(param) for param in op.params if param.keyword]
    return f"{written_name(op)}({', '.join(positional + keyword)})"


def written_name(op: Op) -> str:
    """Return an op's name as a pipeline writes it."""
    return op.name.removeprefix(f"{BARE_FAMILY}.")


def _listed(family: Family) -> str:
    return ", ".join(f"`{name}`" for name in family.ops)


def _family(family: Family) -> str:
    ops = "\n\n".join(op_page(op) for op in family.ops.values())
    return f"## {family.name}\n\n{family.summary}\n\n{ops}"


def op_page(op: Op) -> str:
    """Return what the page says of one op."""
    results = ", ".join(f"`{name}`" for name in op.results)
    lines = [
        f"### `{signature(op)}`",
        "",
        op.summary,
        "",
        *(f"* `{param.name}`: {param.doc}{_notes(param)}" for param in op.params),
        f"* gives {results}",
        f"* in models: {_lowering(op)}",
        "",
        "```pipe",
        op.example,
        "```",
    ]
    return "\n".join(lines)


def _shown(param: Param) -> str:
    if param.variadic:
        return f"{param.name}..."
    return f"{param.name} = {_literal(param.default)}" if param.has_default else param.name


def _notes(param: Param) -> str:
    notes = ["known when compiling"] if param.constant else []
    notes += ["by name only"] if param.keyword else []
    return f" *{', '.join(notes).capitalize()}.*" if notes else ""


def _lowering(op: Op) -> str:
    if op.lowering is None:
        return "no"
    return "yes, bit for bit" if op.exact else f"yes, to within {op.tolerance:.0e}"


def _literal(value: Literal) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case DType():
            return value.value
        case str():
            return f'"{value}"'
        case float() if value == 1 / 255:
            return "1 / 255"
        case _:
            return str(value)


if __name__ == "__main__":
    sys.stdout.write(markdown(load_catalog()))
