"""How much of a request is looked at, and how long a caller is waited for."""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps on one request.

    Bytes: `body` after decompression; `arguments` of a body that is no inference; `shared` of
    inputs in shared memory; `uploads` of all bodies over HTTP that are being received. Counts:
    `tensors` of inputs and of outputs, `elements` of a tensor that is no array on the wire (JSON,
    BYTES), `fields` of a gRPC message, `parameters`, `id_length` in characters. `inflation` is how
    many bytes a body may have for each byte of it that was sent, from the first MiB on.
    """

    body: int = 64 * MIB
    arguments: int = MIB
    shared: int = 1024 * MIB
    uploads: int = 1024 * MIB
    tensors: int = 1024
    elements: int = 4 * MIB
    fields: int = 1 << 18
    parameters: int = 256
    id_length: int = 1024
    inflation: int = 256


@dataclass(frozen=True, slots=True)
class CallerLimits:
    """Caps on callers, whatever they ask.

    Of HTTP: `connections` at a time, of which the one that has been silent longest makes room for
    the next; `head` seconds for the head of a request, `idle` seconds without a request. Of
    bodies and answers `rate` bytes have to get through in a second, looked at every `patience`
    seconds. Of gRPC: `streams` at a time of one connection, `metadata` bytes of headers, `unread`
    bytes of answers that wait to be read, in all.
    """

    connections: int = 4096
    head: float = 10.0
    idle: float = 75.0
    patience: float = 20.0
    rate: int = 1024
    streams: int = 256
    metadata: int = 16384
    unread: int = 1024 * MIB
