"""Raw tensors without copies: cut out of a message before it is parsed.

A parser copies the bytes of a tensor into its message, and once more for who reads them. Fields of
a message may come in any order, so that those which hold tensors can be handled apart from the
rest.
"""

from .messages import ModelInferRequest
from .raw import LARGE

_BYTES = 2  # the wire type of what has its length in front
_WIDTHS = {1: 8, 5: 4}  # bytes of the wire types that have always the same
_MOST_FIELDS = 4096  # of a message; what has more is left to the parser
_INPUTS = ModelInferRequest.DESCRIPTOR.fields_by_name["raw_input_contents"].number << 3 | _BYTES


def without_tensors(request: bytes) -> tuple[bytes, list[memoryview]]:
    """Return a ModelInferRequest without its raw tensors, and these as views of it.

    Only what is large is cut; what is no message comes back as it is, for the parser to refuse.
    """
    if len(request) < LARGE:
        return request, []
    view, at, end = memoryview(request), 0, len(request)
    rest: list[memoryview] = []
    tensors: list[memoryview] = []
    try:
        for _ in range(_MOST_FIELDS):
            if at == end:
                return (b"".join(rest), tensors) if tensors else (request, [])
            start = at
            key, at = _number(request, at)
            length = 0
            match key & 7:
                case 0:
                    _, at = _number(request, at)
                case 2:
                    length, at = _number(request, at)
                case kind:
                    length = _WIDTHS[kind]
            content, at = view[at : at + length], at + length
            if at > end:
                break
            if key == _INPUTS:
                tensors.append(content)
            else:
                rest.append(view[start:at])
    except (IndexError, KeyError):
        pass
    return request, []


def _number(buffer: bytes, at: int) -> tuple[int, int]:
    """Read a number of variable length, and return where it ends; IndexError where it does not."""
    number = buffer[at] & 0x7F
    shift = 0
    while buffer[at] & 0x80:
        at += 1
        shift += 7
        if shift > 63:
            raise IndexError
        number |= (buffer[at] & 0x7F) << shift
    return number, at + 1
