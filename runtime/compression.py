"""HTTP's content codings gzip and deflate, with a cap on what a body may inflate to."""

import zlib

from .protocols.limits import MIB

_WBITS = {"gzip": 31, "deflate": 15}
_PIECE = 1 << 16
_LEVEL = 1  # tensors are large and links between services fast
_SMALLEST = 512  # below this, what is saved does not pay for the work


class BodyTooLarge(ValueError):
    """The body holds more than the limit."""


class CodingError(ValueError):
    """The coding is unknown, or the body is not in it."""


def decompress(body: bytes, coding: str, limit: int, inflation: int) -> bytes:
    """Undo a content coding. Nothing is kept of a body until it is known to be within `limit`, and
    from the first MiB on within `inflation` times what was sent."""
    bits = _WBITS.get(coding)
    if bits is None:
        raise CodingError(f"unknown Content-Encoding {coding!a}; gzip and deflate are known")
    try:
        _measure(body, bits, limit, max(MIB, inflation * len(body)))
        return zlib.decompress(body, bits)
    except zlib.error as error:
        raise CodingError(f"the body is no {coding}: {error}") from None


def _measure(body: bytes, bits: int, limit: int, likely: int) -> None:
    inflater = zlib.decompressobj(bits)
    total = len(inflater.decompress(body, _PIECE))
    while inflater.unconsumed_tail and not inflater.eof:
        total += len(inflater.decompress(inflater.unconsumed_tail, _PIECE))
        if total > limit:
            raise BodyTooLarge(f"the body inflates to more than {limit} bytes")
        if total > likely:
            raise BodyTooLarge(
                f"the body inflates to more than {likely // len(body)} times its size; send it "
                "without Content-Encoding"
            )


def compress(body: bytes, accepted: bytes) -> tuple[bytes, bytes | None]:
    """Return the body in a coding that the Accept-Encoding header allows, and which one."""
    if len(body) < _SMALLEST:
        return body, None
    coding = _choose(accepted.decode("latin-1"))
    if coding is None:
        return body, None
    deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WBITS[coding])
    return deflater.compress(body) + deflater.flush(), coding.encode()


def _choose(accepted: str) -> str | None:
    for part in accepted.lower().split(","):
        coding, _, quality = part.partition(";")
        if coding.strip() in _WBITS and quality.replace(" ", "") not in ("q=0", "q=0.0"):
            return coding.strip()
    return None
