"""Configurations as texts: what is written is read again, and where protobuf refuses, so do we."""

import random
import re
from typing import Any

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dsl.diagnostic import Severity
from headrace.dsl.source import Source
from headrace.runtime.protocols.messages import ModelConfig, message_of
from headrace.triton.config import Config, read_config
from headrace.triton.config_chars import is_strange
from headrace.triton.config_write import write
from tests.triton.corpus import CASES

TEXTS = [
    text
    for case in CASES
    for path, text in case.files.items()
    # protobuf's Python takes a NUL in a comment, and any space for one; a tritonserver does not
    if path.endswith(".pbtxt") and not any(map(is_strange, text.replace("\n", "").replace(" ", "")))
]
_FLOATS = st.floats(width=32, allow_nan=False)
_SCALARS = {
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_INT64: st.integers(-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT32: st.integers(0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_UINT64: st.integers(0, (1 << 64) - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: _FLOATS,
    FieldDescriptor.CPPTYPE_FLOAT: _FLOATS,
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_STRING: st.text(st.characters(exclude_categories=("Cs",)), max_size=5),
}


def read(text: str) -> Config:
    return read_config(Source("config.pbtxt", text))


def _scalars(field: FieldDescriptor) -> st.SearchStrategy[Any]:  # Any: of the field's type
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    return _SCALARS[field.cpp_type]


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor = ModelConfig.DESCRIPTOR) -> Any:  # Any: made
    """Draw a message with a few of its fields; of a choice, the last that is drawn stays."""
    message = message_of(descriptor)()
    names = st.sampled_from([field.name for field in descriptor.fields] or [""])
    for name in draw(st.lists(names, max_size=4, unique=True)) if descriptor.fields else ():
        field = descriptor.fields_by_name[name]
        kind = field.message_type
        count = draw(st.integers(0, 2))
        if kind is not None and kind.GetOptions().map_entry:
            key, value = kind.fields_by_name["key"], kind.fields_by_name["value"]
            for _ in range(count):
                entry = draw(_scalars(key))
                if value.message_type is not None:
                    getattr(message, field.name)[entry].CopyFrom(draw(messages(value.message_type)))
                else:
                    getattr(message, field.name)[entry] = draw(_scalars(value))
        elif kind is not None and field.is_repeated:
            getattr(message, field.name).extend([draw(messages(kind)) for _ in range(count)])
        elif kind is not None:
            getattr(message, field.name).CopyFrom(draw(messages(kind)))
        elif field.is_repeated:
            getattr(message, field.name).extend([draw(_scalars(field)) for _ in range(count)])
        else:
            setattr(message, field.name, draw(_scalars(field)))
    return message


@given(messages())
def test_any_configuration_is_read_as_it_was_written(message: Any) -> None:
    for text in (write(message), text_format.MessageToString(message)):
        found = read(text)
        assert found.mistakes == ()
        assert found.message == message


@pytest.mark.slow
@settings(max_examples=20 * settings().max_examples)
@given(st.sampled_from(TEXTS), st.randoms(use_true_random=False))
def test_a_text_is_refused_if_protobuf_refuses_it(text: str, chance: random.Random) -> None:
    """Whatever is left out, put in or doubled; and a mistake has a place in the text."""
    for _ in range(chance.randint(1, 3)):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice((0, 1, 1, 3, 12)))
        put = chance.choice(("", *"{}[]<>:,\"'#-.$\\\n", text[start:end] * 2, "x", "0", "1.5e3"))
        text = text[:start] + put + text[end:]
    found = read(text)
    assert all(0 <= one.primary.span.start <= len(text) for one in found.mistakes)
    try:
        theirs = text_format.Parse(text, ModelConfig())
    except (text_format.ParseError, DeprecationWarning):  # which it gives of a wrong escape
        assert found.mistakes
    else:
        unmeant = [one for one in found.mistakes if one.severity is Severity.ERROR]
        # protobuf takes any number for a name of an enum, of which nobody could say what it means
        nameless = [one for one in unmeant if re.match(r"`-?\w+` is no ", one.message)]
        assert unmeant == nameless, text
        assert nameless or found.message == theirs


def test_what_a_message_has_no_room_for_is_written_again_in_its_place() -> None:
    found = read(
        'shiny: [ 1, 2 ]\ninput { name: "x" dull { a: 1 } }\n'
        'parameters { key: "k" value { string_value: "v" bright: <b: "c"> } }\n'
    )
    assert [one.severity for one in found.mistakes] == [Severity.WARNING] * 3
    text = write(found.message, found.unknown)
    assert [line.strip() for line in text.splitlines() if "{ a" in line or "ri" in line] == [
        "dull { a: 1 }",
        'string_value: "v"',
        'bright: <b: "c">',
    ]
    again = read(text)
    assert again.message == found.message
    assert {place for place, _ in again.unknown} == {place for place, _ in found.unknown}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("name",), '"m"'),
        (("input", 0, "dims", 1), "-1"),
        (("input", 1), "{"),
        (("input", 1, "name"), "'y'"),
        (("input", 2, "data_type"), "TYPE_BOOL"),
        (("input", 0, "reshape", "shape"), "input"),
        (("parameters", "k", "value", "string_value"), '"v" "w"'),
        (("parameters", "none"), "name"),
    ],
)
def test_a_field_has_a_place(path: tuple[str | int, ...], text: str) -> None:
    found = read(
        'name: "m"\ninput { name: "x" dims: [ 3, -1 ] }\n'
        "input [ { name: 'y' }, < data_type: TYPE_BOOL > ]\n"
        'parameters { key: \'k\' value { string_value: "v" "w" } }\n'
    )
    assert found.mistakes == ()
    if text == "name":
        assert found.place(*path) == found.place("nothing")
    else:
        assert found.place(*path).text == text
