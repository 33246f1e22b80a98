"""What runs in a worker: it loads one model, and calls it as the engine says."""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import importlib.util
import io
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .batches import Reading, Writing, executed, read_header
from .engine import Engine
from .link import Link
from .loaded import Model, Wrong, said

_PR_SET_PDEATHSIG = 1


def main(descriptor: int, parent: int, late: int) -> None:
    """Serve the engine at the other end of a socket, which is in process `parent` and hears of what
    is said unasked by `late`."""
    _die_with(parent)
    os.set_inheritable(descriptor, False)
    os.set_inheritable(late, False)
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what is printed is told before a crash
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with socket.socket(fileno=descriptor) as end:
        _Worker(Engine(Link(end), late)).serve()


def _die_with(parent: int) -> None:
    """Let the system kill this process when the thread that started it ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # it has gone before that held
        os._exit(1)


class _Worker:
    def __init__(self, engine: Engine) -> None:
        self._engine, self._model = engine, Model(engine, _imported)
        self._reading, self._writing = Reading(), Writing()

    def serve(self) -> None:
        while True:
            try:
                header, content = self._engine.order()
            except EOFError:
                return
            if isinstance(header, bytes):
                self._execute(header, content)
                del header, content
                continue
            order = header["do"]
            if order == "initialize":
                self._tell(self._initialize, header)
            elif order == "complete":
                self._tell(self._model.complete, header)
            elif order == "finalize":
                self._finalize()
                return
            else:
                raise RuntimeError(f"a worker does not know how to {order}")
            del header, content

    def _tell(self, do: Callable[[dict[str, Any]], dict[str, Any]], header: dict[str, Any]) -> None:
        try:
            answer = {"do": "done", **do(header)}
        except BaseException as error:  # whatever it is, the engine is told
            answer = {"do": "failed", **said(error)}
        self._engine.send(answer, last=True)

    def _initialize(self, header: dict[str, Any]) -> dict[str, Any]:
        if header["memory"] is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (header["memory"],) * 2)
        return self._model.initialize(header)

    def _finalize(self) -> None:
        try:
            self._model.finalize()
        except Exception:  # it ends all the same
            traceback.print_exc()

    def _execute(self, header: bytes, content: Any) -> None:
        first, _, told, at = read_header(header)
        chunks: list[Any] = []
        try:
            given = self._reading.unpack(header, at, content)
            found, more = self._model.execute(first, told, given)
            groups = self._writing.pack(found, chunks)
        except BaseException as error:  # whatever it is, the engine is told, and the worker goes on
            self._writing.forget()
            chunks, more, groups = [], said(error), self._writing.pack([], [])
        self._engine.send(executed(first, more, groups), chunks, last=True)


def _imported(file: str) -> Any:
    """Return the module of a model: a member of the package that its version's folder is, so that
    it may import beside itself either way."""
    path = Path(file)
    sys.path += [str(path.parent), str(path.parent.parent)]
    name = f"{path.parent.name}.{path.stem}"
    importlib.import_module(path.parent.name)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Wrong(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
