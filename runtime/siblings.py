"""The processes of one server: each is a whole one, and asks the others what is true of all.

a caller asks any of them ─▶ it asks the others, each on its own socket ─▶ one answer for all

Each has a place in a folder of their own, by its number: a socket that answers the others, and a
file with what it has counted, as it was told last. Who takes the place of one that has died goes on
from that file, and while nobody has, the others read it: so that a counter which was told never
falls. What was counted since is lost with the process.

The socket has a thread of its own, and so has asking: no event loop waits for another.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from errno import EINVAL
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from .repository.figures import Figures, Loaded, figures_of, left_behind, summed
from .repository.repository import Repository
from .server_config import Process

_LOG: Final = logging.getLogger(__name__)
_SECONDS: Final = 2.0
"""In which a process must have answered. One that has not counts as one that does not serve."""

_ASKING: Final = 4
_BACKLOG: Final = 64
_READ: Final = 1 << 16
_FIGURES: Final = msgspec.msgpack.Decoder(Figures)

Question: TypeAlias = tuple[str, str] | None
"""Whether a model is ready, by its name and version, or ("", "") the server; None asks for what was
counted."""

_QUESTIONS: Final = msgspec.msgpack.Decoder(Question)


class Siblings:
    """What a process knows of those that it serves with; calls may come from any thread."""

    def __init__(self, process: Process, repository: Repository) -> None:
        """Go on from what the process in this place before has counted."""
        self._process, self._repository = process, repository
        self._keeping = threading.Lock()
        before = _read(process.counts(process.number))
        self._before = () if before is None else (left_behind(before),)
        self._pool = ThreadPoolExecutor(_ASKING, "headrace-siblings")
        self._listening: socket.socket | None = None
        self._thread: threading.Thread | None = None

    def figures(self) -> "Future[Figures]":
        """Ask for what all have counted."""
        return self._pool.submit(self._figures)

    def loaded(self, app: str, version: str) -> "Future[Loaded]":
        """Ask for what all have counted of a version."""
        return self._pool.submit(lambda: self._figures().loaded[app, version])

    def ready(self, name: str, version: str) -> "Future[bool]":
        """Ask whether the others are ready, or a model is in all of them."""
        return self._pool.submit(self._ready, name, version)

    def answer(self, ready: Callable[[str, str], bool]) -> None:
        """Answer the others from now on; `ready` tells whether this process is, or a model."""
        path = self._process.socket(self._process.number)
        path.unlink(missing_ok=True)  # of the one before
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen(_BACKLOG)
        self._thread = threading.Thread(
            target=self._answer_all, args=(self._listening, ready), name="headrace-answers"
        )
        self._thread.start()

    def close(self) -> None:
        """Answer nobody any more, and leave what was counted to be read."""
        if self._listening is not None and self._thread is not None:
            self._listening.shutdown(socket.SHUT_RDWR)
            self._thread.join()
            self._listening.close()
        self._pool.shutdown()
        self._own()

    def _own(self) -> Figures:
        """Return what was counted in this place, once it is kept there."""
        path = self._process.counts(self._process.number)
        draft = path.with_suffix(".draft")
        with self._keeping:
            own = summed([figures_of(self._repository, apart=True), *self._before])
            try:
                draft.write_bytes(msgspec.msgpack.encode(own))
                draft.replace(path)
            except OSError as error:
                _LOG.warning("what was counted cannot be kept: %s", error)
        return own

    def _figures(self) -> Figures:
        others = [
            _decoded(content) or _left(self._process.counts(number))
            for number, content in zip(self._others(), self._ask(None), strict=True)
        ]
        return summed([self._own(), *(one for one in others if one is not None)])

    def _ready(self, name: str, version: str) -> bool:
        return all(content == b"\x01" for content in self._ask((name, version)))

    def _others(self) -> list[int]:
        return [one for one in range(self._process.count) if one != self._process.number]

    def _ask(self, question: Question) -> list[bytes]:
        """Return what the others answer, together; of one that does not, what it has said."""
        until = time.monotonic() + _SECONDS
        with ExitStack() as opened:
            asked = [opened.enter_context(socket.socket(socket.AF_UNIX)) for _ in self._others()]
            for one, number in zip(asked, self._others(), strict=True):
                with suppress(OSError):  # it is down: nothing comes from it
                    one.settimeout(_SECONDS)
                    one.connect(str(self._process.socket(number)))
                    one.sendall(msgspec.msgpack.encode(question))
                    one.shutdown(socket.SHUT_WR)
            return [_received(one, until) for one in asked]

    def _answer_all(self, listening: socket.socket, ready: Callable[[str, str], bool]) -> None:
        while True:
            try:
                asker, _ = listening.accept()
            except OSError as error:
                if error.errno == EINVAL:
                    return  # it is shut
                continue
            with asker:
                try:
                    question = _received(asker, time.monotonic() + _SECONDS)
                    asker.settimeout(_SECONDS)
                    asker.sendall(self._answer(question, ready))
                except (OSError, msgspec.DecodeError):
                    continue  # who asked has gone, or does not read
                except Exception:
                    _LOG.exception("a bug in headrace")

    def _answer(self, content: bytes, ready: Callable[[str, str], bool]) -> bytes:
        question = _QUESTIONS.decode(content)
        if question is None:
            return msgspec.msgpack.encode(self._own())
        return b"\x01" if ready(*question) else b"\x00"


def _received(one: socket.socket, until: float) -> bytes:
    """Return what comes until the other side has said all, or it is too late."""
    content = bytearray()
    with suppress(OSError):
        while True:
            one.settimeout(max(1e-3, until - time.monotonic()))
            part = one.recv(_READ)
            if not part:
                break
            content += part
    return bytes(content)


def _decoded(content: bytes) -> Figures | None:
    """Return figures; None where they are not all there."""
    try:
        return _FIGURES.decode(content)
    except msgspec.DecodeError:
        return None


def _left(path: Path) -> Figures | None:
    """Return what a process that does not answer has counted, as it was told last."""
    found = _read(path)
    return None if found is None else left_behind(found)


def _read(path: Path) -> Figures | None:
    try:
        return _FIGURES.decode(path.read_bytes())
    except FileNotFoundError:  # it has told of nothing yet
        return None
