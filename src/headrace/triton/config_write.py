"""A configuration as text: lists on one line, and fields that the message has not, in place."""

from collections.abc import Iterator, Sequence
from io import StringIO

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor

from .config import Message
from .config_fields import Place, Unknown

_INDENT = "  "


def write(message: Message, unknown: Sequence[Unknown] = ()) -> str:
    """Return a text that is read as the same message; `unknown` is carried along."""
    return "".join(f"{line}\n" for line in _lines(message, (), unknown))


def _lines(message: Message, path: Place, unknown: Sequence[Unknown]) -> Iterator[str]:
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            yield from _map(field, value, (*path, field.name), unknown)
        elif field.message_type is not None:
            for i, one in enumerate(value if field.is_repeated else [value]):
                here = (*path, field.name, i) if field.is_repeated else (*path, field.name)
                yield from _block(field.name, _lines(one, here, unknown))
        elif field.is_repeated:
            yield f"{field.name}: [ {', '.join(_scalar(field, one) for one in value)} ]"
        else:
            yield f"{field.name}: {_scalar(field, value)}"
    for place, field in unknown:
        if place == path:
            yield field.whole.text


def _map(
    field: FieldDescriptor, entries: Message, path: Place, unknown: Sequence[Unknown]
) -> Iterator[str]:
    assert field.message_type is not None
    kinds = field.message_type.fields_by_name
    for key in sorted(entries):
        yield from _block(field.name, _entry(kinds, key, entries[key], (*path, str(key)), unknown))


def _entry(
    kinds: Message, key: str | int, value: Message, path: Place, unknown: Sequence[Unknown]
) -> Iterator[str]:
    yield f"key: {_scalar(kinds['key'], key)}"
    if kinds["value"].message_type is None:
        yield f"value: {_scalar(kinds['value'], value)}"
    else:
        yield from _block("value", _lines(value, (*path, "value"), unknown))
    for place, field in unknown:
        if place == path:
            yield field.whole.text


def _block(name: str, lines: Iterator[str]) -> Iterator[str]:
    inside = list(lines)
    if not inside:
        yield f"{name} {{ }}"
        return
    yield f"{name} {{"
    yield from (_INDENT + line for line in inside)
    yield "}"


def _scalar(field: FieldDescriptor, value: object) -> str:
    out = StringIO()
    text_format.PrintFieldValue(field, value, out, as_utf8=True)
    return out.getvalue()
