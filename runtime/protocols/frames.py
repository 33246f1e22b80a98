"""Fields of messages as bytes: raw tensors are cut out of a message before it is parsed, and a
message that is bytes already is put into another.

A parser copies the bytes of a tensor into its message, and once more for who reads them. Fields of
a message may come in any order, so that those which hold tensors can be handled apart from the
rest.
"""

from .messages import ModelInferRequest, ModelStreamInferResponse
from .raw import LARGE

_BYTES = 2  # the wire type of what has its length in front
_WIDTHS = {1: 8, 5: 4}  # bytes of the wire types that have always the same
_MOST_FIELDS = 4096  # of a message; what has more is left to the parser
_INPUTS = ModelInferRequest.DESCRIPTOR.fields_by_name["raw_input_contents"].number << 3 | _BYTES
_IN_STREAM = (
    ModelStreamInferResponse.DESCRIPTOR.fields_by_name["infer_response"].number << 3 | _BYTES
)


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


def in_stream(response: bytes, parameters: bytes = b"") -> bytes:
    """Return a ModelInferResponse, with these parameters too, as one message of a stream."""
    length = len(response) + len(parameters)
    return b"".join((head(_IN_STREAM, length), response, parameters))


def head(tag: int, length: int) -> bytes:
    """Return what stands in front of the content of a field."""
    return bytes((tag,)) + number_bytes(length)


def number_bytes(number: int) -> bytes:
    """Return a number in as many bytes as it takes, seven bits each."""
    content = bytearray()
    while number > 0x7F:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    content.append(number)
    return bytes(content)
