"""Plans as JSON: a codec for every frozen dataclass of the plan, read off its type hints.

The declared type decides the form, so nothing in a file can name a class that the plan does not
have. A record is an object with exactly its fields; in a union it is wrapped in its name, as in
`{"CallStep": {...}}`; an enum is its value; a tuple is an array. Literals: `literal_codec.py`.
"""

import dataclasses
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from ..stdlib import op
from .literal_codec import (
    Attachments,
    Json,
    Malformed,
    decode_float,
    decode_int,
    decode_literal,
    encode_float,
    encode_int,
    encode_literal,
)
from .plan import Plan

# What is encoded and decoded is anything a plan holds: the codecs are chosen by declared type.
Thing: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Codec:
    """Both directions for one type; `decode` raises Malformed."""

    encode: Callable[[Thing], Json]
    decode: Callable[[Json], Thing]


def encode_plan(plan: Plan) -> tuple[Json, dict[str, bytes]]:
    """Return the JSON of a plan and its attachments by digest."""
    attachments = Attachments()
    return Codecs(attachments).of(Plan, Plan).encode(plan), attachments.contents


def decode_plan(json: Json, contents: dict[str, bytes]) -> Plan:
    """Return the plan; raises Malformed with the path of what is wrong."""
    return Codecs(Attachments(contents)).of(Plan, Plan).decode(json)


class Codecs:
    """Makes the codecs of one plan; each class gets one, so that records may nest in themselves."""

    def __init__(self, attachments: Attachments) -> None:
        self._attachments = attachments
        self._records: dict[type, Codec] = {}

    def of(self, hint: Thing, owner: type) -> Codec:
        """Return the codec of a type hint that a field of `owner` has."""
        if isinstance(hint, str) and hint != op.Literal:
            hint = vars(sys.modules[owner.__module__])[hint]
        if hint == op.Literal:
            return Codec(
                lambda value: encode_literal(value, self._attachments),
                lambda json: decode_literal(json, self._attachments),
            )
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (types.UnionType, typing.Union):
            return self._union(arguments, owner)
        if origin is typing.Literal:
            return _choice(arguments, lambda value: value)
        if origin is tuple and arguments[1:] == (...,):
            return _array(self.of(arguments[0], owner))
        if origin is tuple:
            return _row(tuple(self.of(argument, owner) for argument in arguments))
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            return self._record(hint)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return _choice(tuple(hint), lambda member: member.value)
        return self._atom(hint)

    def _atom(self, hint: Thing) -> Codec:
        if hint is int:
            return Codec(encode_int, decode_int)
        if hint is float:
            return Codec(encode_float, decode_float)
        if hint is bytes:
            return Codec(self._attachments.encode, self._attachments.decode)
        if hint in (str, bool):
            return Codec(lambda value: value, lambda json: _exactly(json, hint))
        raise TypeError(f"a plan has no form for {hint}")

    def _record(self, cls: type) -> Codec:
        if cls not in self._records:
            # The shell is known before the fields are: a Block has steps that have Blocks.
            fields: dict[str, Codec] = {}
            self._records[cls] = Codec(
                lambda value: {n: codec.encode(getattr(value, n)) for n, codec in fields.items()},
                lambda json: _decode_record(cls, fields, json),
            )
            for field in dataclasses.fields(cls):
                fields[field.name] = self.of(field.type, cls)
        return self._records[cls]

    def _union(self, members: tuple[Thing, ...], owner: type) -> Codec:
        """Records are told apart by their name, atoms by their JSON type."""
        classes = [m for m in members if isinstance(m, type) and dataclasses.is_dataclass(m)]
        records = {cls.__name__: self._record(cls) for cls in classes}
        atoms = [self._atom(m) for m in members if m in (int, float, str, bool, bytes)]
        optional = type(None) in members
        if len(atoms) > 1:
            raise TypeError(f"a plan cannot tell the members of a union in {owner} apart")

        def encode(value: Thing) -> Json:
            if value is None and optional:
                return None
            name = type(value).__name__
            return {name: records[name].encode(value)} if name in records else _only(atoms, value)

        def decode(json: Json) -> Thing:
            if json is None and optional:
                return None
            if isinstance(json, dict) and len(json) == 1:
                ((name, inner),) = json.items()
                if name in records:
                    return records[name].decode(inner)
            if atoms:
                return atoms[0].decode(json)
            raise Malformed(f"wants one of {', '.join(records)}")

        return Codec(encode, decode)


def _only(atoms: list[Codec], value: Thing) -> Json:
    if not atoms:
        raise TypeError(f"a plan cannot hold a {type(value).__name__} here")
    return atoms[0].encode(value)


def _exactly(json: Json, kind: type) -> Thing:
    if type(json) is not kind:
        raise Malformed(f"wants a {kind.__name__}")
    return json


def _choice(values: tuple[Thing, ...], spelled: Callable[[Thing], Json]) -> Codec:
    by_spelling = {spelled(value): value for value in values}

    def decode(json: Json) -> Thing:
        if not isinstance(json, str) or json not in by_spelling:
            raise Malformed(f"wants one of {', '.join(map(str, by_spelling))}")
        return by_spelling[json]

    return Codec(spelled, decode)


def _array(item: Codec) -> Codec:
    def decode(json: Json) -> Thing:
        if not isinstance(json, list):
            raise Malformed("wants an array")
        return tuple([item.decode(element) for element in json])

    return Codec(lambda values: [item.encode(value) for value in values], decode)


def _row(items: tuple[Codec, ...]) -> Codec:
    def decode(json: Json) -> Thing:
        if not isinstance(json, list) or len(json) != len(items):
            raise Malformed(f"wants an array of {len(items)}")
        return tuple([codec.decode(part) for codec, part in zip(items, json, strict=True)])

    return Codec(lambda v: [c.encode(part) for c, part in zip(items, v, strict=True)], decode)


def _decode_record(cls: type, fields: dict[str, Codec], json: Json) -> Thing:
    if not isinstance(json, dict) or json.keys() != fields.keys():
        raise Malformed(f"wants a {cls.__name__} with {', '.join(fields)}")
    values: dict[str, Thing] = {}
    for name, codec in fields.items():
        try:
            values[name] = codec.decode(json[name])
        except Malformed as error:
            raise Malformed(f"{cls.__name__}.{name}: {error}") from error
    return cls(**values)
