"""What a worker prints, as lines of the log: escaped, none too long, not too many. No I/O."""

from typing import Final

_LONGEST: Final = 2000  # bytes of a line that are shown
_MOST: Final = 100  # lines a second
_KEPT: Final = 4000  # bytes of the end, for the fault of whoever was being served


class Printed:
    """Takes what comes from a pipe and gives the lines that are whole."""

    def __init__(self) -> None:
        self._part, self._cut = b"", False
        self._second, self._lines, self._dropped = 0, 0, 0
        self.last = b""

    def take(self, content: bytes, now: float) -> list[str]:
        """Return the lines that `content` completes; no bytes are the end."""
        self.last = (self.last + content)[-_KEPT:]
        *whole, part = (self._part + content).split(b"\n")
        if not content and part:
            whole, part = [part], b""
        lines: list[bytes] = []
        for line in whole:
            if not self._cut:
                lines.append(line)
            self._cut = False
        if self._cut:
            part = b""
        elif len(part) > _LONGEST:  # it is shown now, and what comes of it later is left out
            lines.append(part)
            part, self._cut = b"", True
        self._part = part
        return self._allowed([shown(line) for line in lines], now)

    def _allowed(self, lines: list[str], now: float) -> list[str]:
        allowed: list[str] = []
        if int(now) != self._second:
            if self._dropped:
                allowed.append(f"{self._dropped} lines more are left out")
            self._second, self._lines, self._dropped = int(now), 0, 0
        room = max(0, _MOST - self._lines)
        allowed += lines[:room]
        self._lines += len(lines[:room])
        self._dropped += len(lines[room:])
        return allowed


def shown(line: bytes) -> str:
    """Return a line as a log may show it: what could forge another, or colour it, is escaped."""
    text = line[:_LONGEST].decode("utf-8", "backslashreplace")
    text = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text.rstrip("\r"))
    return f"{text} ..." if len(line) > _LONGEST else text
