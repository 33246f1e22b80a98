"""How many bytes of bodies there are that are not whole yet, over all connections."""

from .request import Code, Fault


class Uploads:
    """Counts bytes in and out, for one event loop."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0

    def take(self, size: int) -> None:
        """Count bytes in; raises the Fault where they are too many."""
        if self._held + size > self._most:
            raise Fault(Code.OVERLOADED, "too many large bodies are on their way", retry_after=1.0)
        self._held += size

    def give_back(self, size: int) -> None:
        """Count bytes out."""
        self._held -= size
