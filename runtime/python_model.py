"""Python models: objects of a class from a packed source, each used by one execution at a time."""

import inspect
import logging
from collections.abc import Callable
from queue import SimpleQueue

from .stage import StageError

_LOG = logging.getLogger(__name__)
_SHOWN = 500


class Instances:
    """`count` objects of a class. Calling this calls one that is free, waiting until one is."""

    def __init__(self, make: Callable[..., object], name: str, device: str, count: int) -> None:
        """Make the objects; raises StageError where a constructor fails or gives no callable."""
        self._name = name
        self._free: SimpleQueue[Callable[..., object]] = SimpleQueue()
        self._all: list[Callable[..., object]] = []
        options = {"device": device} if _takes_device(make) else {}
        for _ in range(count):
            try:
                made = make(**options)
            except (Exception, SystemExit) as error:
                self.close()
                raise StageError(f"`{name}` cannot be made: {_said(error)}") from error
            if not callable(made):
                self.close()
                raise StageError(f"`{name}` has no `__call__`, which is given each batch")
            self._all.append(made)
            self._free.put(made)

    def __call__(self, *arguments: object) -> object:
        instance = self._free.get()
        try:
            return instance(*arguments)
        finally:
            self._free.put(instance)

    def close(self) -> None:
        """Close the objects that have a `close`; what one raises is logged, and others go on."""
        for instance in self._all:
            close = getattr(instance, "close", None)
            if callable(close):
                try:
                    close()
                except Exception:
                    _LOG.exception("closing `%s` failed", self._name)
        self._all.clear()


def _takes_device(make: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):  # a class of an extension module may not tell
        return False
    return "device" in parameters


def _said(error: BaseException) -> str:
    text = str(error)[:_SHOWN]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
