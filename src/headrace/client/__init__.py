"""A server's pipelines as functions, over gRPC or HTTP.

    client = Client("grpc://127.0.0.1:8001")
    page = client.ocr(photo=jpeg)

`pipeline.py` is one of them; `wire.py` is the seam to what carries a request; `grpc.py` and
`http.py` carry it.
"""

from types import TracebackType
from urllib.parse import urlsplit

from .pipeline import RemotePipeline
from .wire import Wire

__all__ = ["Client", "RemotePipeline"]


class Client:
    """Calls may come from any thread. What a pipeline takes is asked of the server once."""

    def __init__(self, address: str, timeout: float | None = None) -> None:
        """`address` is `grpc://`, `http://` or `https://` and host:port; `timeout` in seconds, a
        call."""
        self._wire = _connect(address, timeout)
        self._pipelines: dict[str, RemotePipeline] = {}

    def __getitem__(self, name: str) -> RemotePipeline:
        """Return a pipeline; raises Fault NOT_FOUND when the server has none of that name."""
        if name not in self._pipelines:
            self._pipelines[name] = RemotePipeline(self._wire, name)
        return self._pipelines[name]

    def __getattr__(self, name: str) -> RemotePipeline:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()


def _connect(address: str, timeout: float | None) -> Wire:
    url = urlsplit(address)
    if url.scheme == "grpc" and url.hostname:
        from .grpc import GrpcWire

        return GrpcWire(url.netloc, timeout)
    if url.scheme in ("http", "https") and url.hostname:
        from .http import HttpWire

        return HttpWire(url.hostname, url.port, timeout, secure=url.scheme == "https")
    raise ValueError(f"{address!r} is no address: write grpc://host:port or http://host:port")
