"""What a model says while it has requests: what it answers, asks and writes to the log."""

import logging
from typing import Any, Final

from .asked import Given
from .calls import Asks, Calls
from .open_requests import OpenRequests, error_of
from .worker.triton_python_backend_utils.contents import Places

_LOG: Final = logging.getLogger(__name__)
_LEVELS: Final = (logging.INFO, logging.WARNING, logging.ERROR, logging.DEBUG)


class Heard:
    """What is said by a `model`, of requests that are `open`; `asks` is answered what it asks."""

    def __init__(self, model: str, asks: Asks, calls: Calls, open: OpenRequests) -> None:
        self._model, self._asks, self._calls, self._open = model, asks, calls, open

    def take(self, number: int, header: dict[str, Any], content: Any) -> None:  # Any: JSON, bytes
        """Do what a message says, whose tensors are in `content`; nothing here waits."""
        match header["do"]:
            case "ask":
                self._calls.ask(self._asks, number, header, content)
            case "response":
                self._respond(number, header, content)
            case "log":
                level = _LEVELS[header["level"]]
                if _LOG.isEnabledFor(level):
                    _LOG.log(level, "%s: %s", self._model, ascii(header["text"])[1:-1])
            case "cancelled":
                request = header["request"]
                gone = self._open.is_open(request) and self._open.contexts(request)[0].cancelled
                self._asks.answer(number, {"cancelled": gone})
            case _:
                self._calls.take(self._asks, number, header)

    def _respond(self, number: int, header: dict[str, Any], content: Any) -> None:  # Any: as above
        final = bool(header["final"])
        one = self._open.find(number)
        if one is None:
            return
        if "error" in header:
            one.responses.end(error_of(*header["error"]))
        elif "tensors" in header:
            places: Places = header["tensors"]
            found = places.arrays(content)
            outputs = {name: (kind, values) for name, kind, values in found}
            one.responses.put(Given(outputs, str(header["parameters"])), places.end)
        if final:
            one.responses.end()
        if final or "error" in header:
            self._open.forget(number)
