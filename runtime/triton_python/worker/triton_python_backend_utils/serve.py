"""What runs in a worker: it loads one model, and calls it as the engine says."""

from __future__ import annotations

import asyncio
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
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .batches import Reading, Writing, executed, read_header
from .config import ModelConfig
from .engine import WORKER, Engine
from .grouping import Stacking, requests_of
from .link import Link
from .messages import (
    TRITONSERVER_REQUEST_RELEASE_RESCHEDULE,
    TRITONSERVER_RESPONSE_COMPLETE_FINAL,
    InferenceRequest,
    InferenceResponse,
)
from .tensor import Tensor

_PR_SET_PDEATHSIG = 1
_TRACE = 40_000  # characters of a traceback
_SAID = 4_000  # characters of what an exception says


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


class _Wrong(Exception):
    """A model does not keep to what a model must do; told without a name."""


class _Worker:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._model: Any = None  # a model's own object
        self._loop: asyncio.AbstractEventLoop | None = None
        self._background: set[Any] = set()
        self._reading, self._writing, self._stacking = Reading(), Writing(), Stacking()

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
                self._tell(self._complete, header)
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
            answer = {"do": "failed", **_said(error)}
        self._engine.send(answer, last=True)

    def _initialize(self, header: dict[str, Any]) -> dict[str, Any]:
        WORKER.engine, WORKER.model = self._engine, header["model"]
        WORKER.decoupled, WORKER.outputs = header["decoupled"], frozenset(header["outputs"])
        if header["memory"] is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (header["memory"],) * 2)
        module = _imported(header["file"])
        if not hasattr(module, "TritonPythonModel"):
            raise _Wrong("Python model has no class `TritonPythonModel`.")
        self._model = module.TritonPythonModel()
        if not hasattr(self._model, "execute"):
            raise _Wrong(f"Python model {header['model']} does not implement `execute` method.")
        if hasattr(self._model, "initialize"):
            self._model.initialize(header["arguments"])
        return {}

    def _complete(self, header: dict[str, Any]) -> dict[str, Any]:
        WORKER.model = header["model"]
        module = _imported(header["file"])
        config = ModelConfig(header["config"])
        kind = getattr(module, "TritonPythonModel", None)
        if kind is None:
            raise _Wrong("Python model has no class `TritonPythonModel`.")
        has = hasattr(kind, "auto_complete_config")
        if has:
            config = kind.auto_complete_config(config)
        if not isinstance(config, ModelConfig):
            raise _Wrong(
                "auto_complete_config function in model '"
                f"{header['model']}' must return a valid pb.ModelConfig object."
            )
        return {"config": config.as_dict(), "has": has}

    def _finalize(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        if hasattr(self._model, "finalize"):
            try:
                self._model.finalize()
            except Exception:  # it ends all the same
                traceback.print_exc()

    def _execute(self, header: bytes, content: Any) -> None:
        first, _, told, at = read_header(header)
        requests, more, chunks = [], None, []
        try:
            requests = requests_of(first, told, self._reading.unpack(header, at, content))
            returned = self._model.execute(requests)
            if asyncio.iscoroutine(returned):
                returned = self._awaited(returned)
            outputs, more = self._responses(requests, returned)
            groups = self._writing.pack(self._stacking.groups_of(outputs, WORKER.outputs), chunks)
        except BaseException as error:  # whatever it is, the engine is told, and the worker goes on
            for one in requests:
                one.get_response_sender().closed = True
            self._writing.forget()
            chunks, more, groups = [], _said(error), self._writing.pack([], [])
        self._engine.send(executed(first, more, groups), chunks, last=True)

    def _awaited(self, coroutine: Any) -> Any:
        """Return what a coroutine gives; one of a decoupled model goes on behind."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        if not WORKER.decoupled:
            return future.result()
        self._background.add(future)
        future.add_done_callback(self._behind)
        return None

    def _behind(self, future: Any) -> None:
        self._background.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            traceback.print_exception(type(error), error, error.__traceback__)

    def _responses(
        self, requests: list[InferenceRequest], returned: Any
    ) -> tuple[list[list[Tensor]], dict[str, Any] | None]:
        """Return the outputs of responses, and what is told of requests whose response is not that
        alone: None where there are none."""
        if returned is None:
            again = [
                at
                for at, one in enumerate(requests)
                if one.release == TRITONSERVER_REQUEST_RELEASE_RESCHEDULE
            ]
            return [], {"others": dict.fromkeys(range(len(requests))), "again": again}
        if WORKER.decoupled:
            raise _Wrong(
                f"Python model '{WORKER.model}' is using the decoupled mode and the execute "
                "function must return None."
            )
        if not isinstance(returned, list):
            raise _Wrong(f"Expected a list in the execute return, found type '{type(returned)}'.")
        if len(returned) != len(requests):
            raise _Wrong(
                "Number of InferenceResponse objects do not match the number of InferenceRequest "
                f"objects. InferenceRequest(s) size is:{len(requests)}, and InferenceResponse(s) "
                f"size is:{len(returned)}\n"
            )
        outputs, others, again, parameters = [], {}, [], {}
        for at, (request, response) in enumerate(zip(requests, returned)):  # noqa: B905 as many
            rescheduled = request.release == TRITONSERVER_REQUEST_RELEASE_RESCHEDULE
            if response is None:
                others[at] = None
                if rescheduled:
                    again.append(at)
                continue
            if rescheduled:
                raise _Wrong(
                    "Expected a None object in the execute function return list for reschduled "
                    f"request, found type '{type(response)}'."
                )
            if not isinstance(response, InferenceResponse):
                raise _Wrong(
                    "Expected an 'InferenceResponse' object in the execute function return list, "
                    f"found type '{type(response)}'."
                )
            if request.sender is not None:
                request.sender.count(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            error = response.error()
            if error is not None:
                others[at] = [error.message(), error.code()]
                continue
            outputs.append(response.output_tensors())
            said = response.parameters()
            if said:
                parameters[at] = said
        if not others and not parameters:
            return outputs, None
        return outputs, {"others": others, "again": again, "parameters": parameters}


def _said(error: Any) -> dict[str, Any]:
    """Return what is told of an exception: its text, and for the log its traceback."""
    text = str(error)[:_SAID]
    named = isinstance(error, _Wrong)
    said = text if named else f"{type(error).__name__}: {text}" if text else type(error).__name__
    shown = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {
        "error": said.encode("utf-8", "backslashreplace").decode(),
        "trace": shown.encode("utf-8", "backslashreplace").decode()[-_TRACE:],
    }


def _imported(file: str) -> Any:
    """Return the module of a model: a member of the package that its version's folder is, so that
    it may import beside itself either way."""
    path = Path(file)
    WORKER.folder = str(path.parent)
    sys.path += [str(path.parent), str(path.parent.parent)]
    name = f"{path.parent.name}.{path.stem}"
    importlib.import_module(path.parent.name)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise _Wrong(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
