"""How a server's log lines look: one line an event, as text or as a JSON object.

A line that is about a request has the id that its caller has in the reply, and what the fault says
of where it failed. What comes from outside is escaped and cut, so that no line can be forged and
none is endless; values are never in it.
"""

import json
import logging
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import IO, Final

from ..request import Fault

_FIELDS: Final = "headrace"  # the attribute of a record that holds them
_SHOWN: Final = 2000  # characters of a message
_DETAIL: Final = 8000  # of a traceback
_NAME: Final = 200  # of anything else


def fields_of(fault: Fault, request_id: str) -> Mapping[str, Mapping[str, str]]:
    """Return what a line about a failed request holds, as `extra` of a call of `logging`."""
    found = {
        "request": request_id,
        "code": fault.code.value,
        "pipeline": fault.pipeline or "",
        "stage": fault.stage or "",
        "item": ".".join(map(str, fault.item)),
        "place": str(fault.place or ""),
        "detail": fault.detail,
    }
    return {_FIELDS: {name: value for name, value in found.items() if value}}


class JsonLines(logging.Formatter):
    """One object a line: time, level, logger, message, and the fields of the request."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            **_event(record.created, record.levelname.lower(), record.name, record.getMessage()),
            **_fields(record),
        }
        if record.exc_info:
            line["detail"] = _cut(self.formatException(record.exc_info), _DETAIL)
        return json.dumps(line)  # ASCII alone, and no line break


def json_line(text: str, level: str) -> str:
    """Return the line of what a command says of the server that it runs."""
    return json.dumps(_event(time.time(), level, "headrace.cli", text))


def _event(created: float, level: str, logger: str, message: str) -> dict[str, str]:
    return {
        "time": _time(created),
        "level": level,
        "logger": logger,
        "message": _cut(message, _SHOWN),
    }


class TextLines(logging.Formatter):
    """Time, level, the fields as name=value, and the message; all of it printable."""

    def format(self, record: logging.LogRecord) -> str:
        fields = _fields(record)
        detail = fields.pop("detail", "")
        if record.exc_info:
            detail = _cut(self.formatException(record.exc_info), _DETAIL)
        told = "".join(f" {name}={_quoted(value)}" for name, value in fields.items())
        message = printable(_cut(record.getMessage(), _SHOWN))
        more = f" | {printable(detail)}" if detail else ""
        return f"{_time(record.created)} {record.levelname:<7}{told} {message}{more}"


@contextmanager
def lines(form: str, level: str, stream: IO[str] | None = None) -> Generator[None]:
    """Let the log of headrace go to a stream (the standard error), and nowhere else, meanwhile."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logger = logging.getLogger("headrace")
    before = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(level.upper())
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before[:2]
        logger.setLevel(before[2])


def _fields(record: logging.LogRecord) -> dict[str, str]:
    fields: Mapping[str, str] = getattr(record, _FIELDS, {})
    return {
        name: _cut(value, _DETAIL if name == "detail" else _NAME) for name, value in fields.items()
    }


def _time(created: float) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created))
    return f"{moment}.{int(created % 1 * 1000):03d}Z"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _quoted(text: str) -> str:
    plain = text.isascii() and text.isprintable() and " " not in text and "=" not in text
    return text if plain and '"' not in text else json.dumps(text)


def printable(text: str) -> str:
    """Return a text on one line, of printable ASCII."""
    if text.isascii() and text.isprintable():
        return text
    return text.encode("unicode_escape").decode("ascii")
