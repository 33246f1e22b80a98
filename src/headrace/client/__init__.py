"""A server's pipelines as functions, over gRPC or HTTP.

    client = Client("grpc://127.0.0.1:8001")
    page = client.ocr(photo=jpeg)

In the order in which a call meets them: `client.py` is a server, `address.py` where it is;
`pipeline.py` one of its pipelines, of which `known.py` is what the server has told; `sequence.py`
requests that belong together, with `turns.py`; `threads.py` those that wait for what was submitted;
`calls.py` takes a request to its answer, and `retry.py` says what is sent again; `wire.py` is the
seam to what carries a request; `grpc.py` and `http.py`, with `connections.py` and an `exchange.py`
on one of them, carry it.
"""

from .address import Tls
from .client import Client
from .pipeline import RemotePipeline
from .retry import NEVER, Counts, Retries, Timing
from .sequence import RemoteSequence

__all__ = [
    "NEVER",
    "Client",
    "Counts",
    "RemotePipeline",
    "RemoteSequence",
    "Retries",
    "Timing",
    "Tls",
]
