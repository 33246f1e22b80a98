"""How many fields and values a ModelInferRequest has, told from its bytes before it is parsed.

A field of two bytes is an object of a hundred once parsed, a value of one byte a number of eight
and then more. What is long is walked from tag to tag first, which costs by the tag: a message whose
bulk is raw has few.

    message ─▶ inputs, outputs ─▶ contents of an input ─▶ bytes, or numbers side by side
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from ..request import RequestError
from .limits import Limits

_Inside: TypeAlias = "Mapping[int, _Inside | int]"
"""By number: what to walk into, or the width of the numbers side by side, 0 where it varies."""

_CONTENTS: Final[_Inside] = MappingProxyType({1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 4, 7: 8})
_INPUT: Final[_Inside] = MappingProxyType({3: 0, 5: _CONTENTS})
_OUTPUT: Final[_Inside] = MappingProxyType({})
_REQUEST: Final[_Inside] = MappingProxyType({5: _INPUT, 6: _OUTPUT})


def check_fields(payload: bytes, limits: Limits) -> None:
    """Raise RequestError where a message has more fields or values than the limits allow."""
    size = len(payload)
    if size > limits.elements or size > 2 * limits.fields:
        _Walk(payload, limits).over(0, size, _REQUEST)


class _Walk:
    """Counts over one message; bytes that are none are for the parser to refuse."""

    def __init__(self, payload: bytes, limits: Limits) -> None:
        self._payload, self._limits, self._fields = payload, limits, 0

    def over(self, at: int, end: int, inside: _Inside) -> None:
        while at < end:
            self._fields += 1
            if self._fields > self._limits.fields:
                raise RequestError(f"the message has more than {self._limits.fields} fields")
            tag, at = self._varint(at, end)
            match tag & 7:
                case 0:
                    _, at = self._varint(at, end)
                case 1:
                    at += 8
                case 2:
                    length, at = self._varint(at, end)
                    if at + length > end:
                        return
                    self._into(at, at + length, inside.get(tag >> 3))
                    at += length
                case 5:
                    at += 4
                case _:
                    return

    def _into(self, start: int, end: int, inside: "_Inside | int | None") -> None:
        match inside:
            case None:
                return
            case int():
                self._values(start, end, inside)
            case _:
                self.over(start, end, inside)

    def _values(self, start: int, end: int, width: int) -> None:
        most = self._limits.elements
        if end - start <= most * max(width, 1):
            return
        raw = np.frombuffer(self._payload, np.int8, end - start, start)
        if width or np.count_nonzero(raw >= 0) > most:
            raise RequestError(
                f"contents of more than {most} values: send them in raw_input_contents"
            )

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = shift = 0
        for place in range(at, min(at + 10, end)):
            byte = self._payload[place]
            value |= (byte & 127) << shift
            if byte < 128:
                return value, place + 1
            shift += 7
        return 7, end  # no tag: the walk ends
