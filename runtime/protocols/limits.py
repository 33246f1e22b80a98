"""How much of a request is looked at before it is refused."""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps on one request. `body` is in bytes, after decompression, and so is `shared`, what its
    inputs may have in shared memory; the rest are counts."""

    body: int = 64 * MIB
    shared: int = 1024 * MIB
    tensors: int = 1024
    rank: int = 16
    parameters: int = 256
    id_length: int = 1024
