"""Whether each field of a configuration's text is one of the message and has a value that fits it.

protobuf stops at its first error and shows a line; this finds all, with what was probably meant.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from ..dsl.diagnostic import Diagnostic, Label, Severity
from ..dsl.nearest import nearest
from .config_text import Block, Field, Scalar, Value, key_of

_NO_FIELD, _NO_VALUE = "HR603", "HR604"

Place: TypeAlias = tuple[str | int, ...]
Unknown: TypeAlias = tuple[Place, Field]


@dataclass(slots=True)
class Fields:
    """What was found; `unknown` are fields of no message, each with the path of its block."""

    mistakes: list[Diagnostic] = field(default_factory=list[Diagnostic])
    unknown: list[Unknown] = field(default_factory=list[Unknown])


def check_fields(root: Block, descriptor: Descriptor) -> Fields:
    """Hold a tree to a message."""
    found = Fields()
    _check_block(root, descriptor, (), found)
    return found


def _check_block(block: Block, descriptor: Descriptor, path: Place, found: Fields) -> None:
    first: dict[str, Field] = {}
    chosen: dict[str, Field] = {}
    counts: dict[str, int] = {}
    for one in block.fields:
        kind = descriptor.fields_by_name.get(one.name)
        if kind is None:
            found.mistakes.append(_unknown(one, descriptor))
            found.unknown.append((path, one))
            continue
        repeated = kind.is_repeated
        if not repeated and (one.listed or one.name in first):
            found.mistakes.append(_twice(one, first.get(one.name)))
            continue
        choice = kind.containing_oneof
        if choice is not None and (other := chosen.get(choice.name)) is not None:
            found.mistakes.append(_either(one, other))
        elif choice is not None:
            chosen[choice.name] = one
        first.setdefault(one.name, one)
        for value in one.values:
            number = counts.get(one.name, 0)
            counts[one.name] = number + 1
            element = _key(value, kind) or number
            here = (*path, one.name, element) if repeated else (*path, one.name)
            _check_value(one, value, kind, here, found)


def _key(value: Value, kind: FieldDescriptor) -> str | None:
    """Return the key of an entry of a map, as text."""
    of_a_map = kind.message_type is not None and kind.message_type.GetOptions().map_entry
    return key_of(value) if of_a_map else None


def _check_value(
    one: Field, value: Value, kind: FieldDescriptor, path: Place, found: Fields
) -> None:
    block: Descriptor | None = kind.message_type
    match value:
        case Scalar(hole=True):
            return  # said already, as a placeholder
        case Scalar() if block is not None:
            said = f"`{one.name}` is a block of fields"
            help = f"write `{one.name} {{ ... }}`; it has {_some(block.fields_by_name)}"
            found.mistakes.append(_wrong(said, value, f"found {_shown(value)}", help))
        case Scalar():
            if (mistake := _scalar(one, value, kind)) is not None:
                found.mistakes.append(mistake)
        case Block() if block is not None:
            _check_block(value, block, path, found)
        case Block():
            said = f"`{one.name}` is {_wanted(kind)}, not a block of fields"
            found.mistakes.append(Diagnostic(_NO_VALUE, said, Label(one.place)))


def _scalar(one: Field, value: Scalar, kind: FieldDescriptor) -> Diagnostic | None:
    """Say why a text is no value of a field."""
    text, wanted = value.text, _wanted(kind)
    match kind.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            if text[0] in "\"'":
                return None
            help = f'write `{one.name}: "{text}"`'
            return _wrong(f"`{one.name}` is a text in quotes", value, "no quotes", help)
        case FieldDescriptor.CPPTYPE_ENUM:
            assert kind.enum_type is not None
            names = list(kind.enum_type.values_by_name)
            if text in names or _integer(text) in kind.enum_type.values_by_number:
                return None
            bare = text.strip("\"'")
            help = f"write `{bare}` without quotes" if bare in names else _meant(bare, names)
            return _wrong(f"{_shown(value)} is no {wanted}", value, "", help)
        case FieldDescriptor.CPPTYPE_BOOL:
            good = text in {"true", "false", "True", "False", "t", "f", "0", "1"}
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            good = text.lstrip("- ").lower() in {"inf", "infinity", "nan", "inff"} or _is_float(
                text
            )
        case _:
            good = (number := _integer(text)) is not None
            if number is not None and not _fits(number, kind):
                return _wrong(f"{text} is out of the range of `{one.name}`", value, wanted, None)
    if good:
        return None
    return _wrong(f"`{one.name}` is {wanted}", value, f"found {_shown(value)}", _cause(value))


def _cause(value: Scalar) -> str | None:
    text = value.text
    if text[0] in "\"'" and _is_float(text.strip("\"'")):
        return f"write {text.strip(text[0])} without quotes"
    if text[0].isalpha() or text[0] == "_":
        return "a word in the place of a number is mostly a template's that nobody filled in"
    return None


def _unknown(one: Field, descriptor: Descriptor) -> Diagnostic:
    """Say of a field that the message has none of its name; what is like none may be newer."""
    names = descriptor.fields_by_name
    owner = _owner(descriptor)
    message = f"{owner} has no field `{one.name}`"
    near = nearest(one.name, names) or _other_place(one.name, descriptor)
    if near is not None:
        return Diagnostic(
            _NO_FIELD,
            message,
            Label(one.place),
            help=near if " " in near else f"did you mean `{near}`?",
        )
    return Diagnostic(
        _NO_FIELD,
        message,
        Label(one.place, "carried along, without effect"),
        notes=("a tritonserver that does not know it either refuses the file",),
        help=f"there are {_some(names)}",
        severity=Severity.WARNING,
    )


def _other_place(name: str, descriptor: Descriptor) -> str | None:
    """Say where a field belongs that is one of the configuration or of a block in this one."""
    root = descriptor.file.message_types_by_name["ModelConfig"]
    if descriptor is not root and name in root.fields_by_name:
        return f"`{name}` stands outside of all blocks"
    for block in descriptor.fields:
        if block.message_type is not None and name in block.message_type.fields_by_name:
            return f"`{name}` stands in the block `{block.name}`"
    return None


def _twice(one: Field, first: Field | None) -> Diagnostic:
    if first is None:
        said = f"`{one.name}` is one value, not a list"
        return Diagnostic(_NO_VALUE, said, Label(one.place), help="leave out the brackets")
    said = f"`{one.name}` is said twice"
    return Diagnostic(_NO_VALUE, said, Label(one.place), (Label(first.place, "first here"),))


def _either(one: Field, other: Field) -> Diagnostic:
    return Diagnostic(
        _NO_VALUE,
        f"either `{other.name}` or `{one.name}`, not both",
        Label(one.place),
        (Label(other.place, "first here"),),
    )


def _wrong(message: str, value: Scalar, said: str, help: str | None) -> Diagnostic:
    return Diagnostic(_NO_VALUE, message, Label(value.place, said), help=help)


def _wanted(kind: FieldDescriptor) -> str:
    match kind.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            return "a text"
        case FieldDescriptor.CPPTYPE_ENUM:
            return _owner(kind.enum_type)  # pyright: ignore[reportArgumentType] it has one
        case FieldDescriptor.CPPTYPE_BOOL:
            return "`true` or `false`"
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return "a number"
        case FieldDescriptor.CPPTYPE_UINT32 | FieldDescriptor.CPPTYPE_UINT64:
            return "a whole number from 0"
        case _:
            return "a whole number"


def _owner(descriptor: Descriptor | EnumDescriptor) -> str:
    return f"`{descriptor.full_name.removeprefix('inference.')}`"


def _fits(number: int, kind: FieldDescriptor) -> bool:
    match kind.cpp_type:
        case FieldDescriptor.CPPTYPE_UINT32:
            return 0 <= number < 1 << 32
        case FieldDescriptor.CPPTYPE_UINT64:
            return 0 <= number < 1 << 64
        case FieldDescriptor.CPPTYPE_INT32:
            return -(1 << 31) <= number < 1 << 31
        case _:
            return -(1 << 63) <= number < 1 << 63


def _integer(text: str) -> int | None:
    """Read a whole number as text format writes it: with 0x, or 0 for octal."""
    bare = text.removeprefix("-").strip()
    sign = -1 if text.startswith("-") else 1
    base = 16 if bare[:2].lower() == "0x" else 8 if bare.startswith("0") and bare != "0" else 10
    try:
        return sign * int(bare, base)
    except ValueError:
        return None


def _is_float(text: str) -> bool:
    try:
        float(text.replace(" ", "").rstrip("fF"))
    except ValueError:
        return False
    return True


def _shown(value: Scalar) -> str:
    text = value.text
    return f"`{text if len(text) <= 40 else text[:37] + '...'}`"


def _meant(text: str, names: list[str]) -> str | None:
    bare = text.upper()
    size = bare.replace("FLOAT", "FP")  # of NumPy's names
    near = next((n for n in names if n == size or n.endswith(f"_{size}")), None)
    near = near or nearest(text, names)
    if near is None:
        near = {
            "TYPE_FLOAT": "TYPE_FP32",
            "TYPE_DOUBLE": "TYPE_FP64",
            "TYPE_BYTES": "TYPE_STRING",
        }.get(bare if bare.startswith("TYPE_") else f"TYPE_{bare}")
        near = near if near in names else None
    return f"did you mean `{near}`?" if near else f"there are {_some(names)}"


def _some(names: Iterable[str]) -> str:
    listed = [f"`{name}`" for name in names]
    return ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")
