"""A model that has been loaded: it is told what it is, executes requests, and ends."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .batches import Group
from .config import ModelConfig
from .engine import WORKER
from .grouping import Stacking, requests_of
from .messages import (
    TRITONSERVER_REQUEST_RELEASE_RESCHEDULE,
    TRITONSERVER_RESPONSE_COMPLETE_FINAL,
    InferenceRequest,
    InferenceResponse,
)
from .tensor import Tensor

_TRACE = 40_000  # characters of a traceback
_SAID = 4_000  # characters of what an exception says
_LEFT = 1.0  # seconds in which what a coroutine has begun ends when it is cancelled


class Wrong(Exception):
    """A model does not keep to what a model must do; told without a name."""


class Model:
    """One object of a model's class, which `load` imports. Whatever a model raises comes out."""

    def __init__(self, engine: Any, load: Callable[[str], Any]) -> None:
        self._engine, self._load = engine, load
        self._module: Any = None
        self._model: Any = None  # a model's own object
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runs_loop: threading.Thread | None = None
        self._background: set[Any] = set()
        self._stacking = Stacking()

    def initialize(self, header: dict[str, Any]) -> dict[str, Any]:
        """Make the object."""
        WORKER.engine, WORKER.model = self._engine, header["model"]
        WORKER.decoupled, WORKER.outputs = header["decoupled"], frozenset(header["outputs"])
        self._model = self._kind(header["file"])()
        if not hasattr(self._model, "execute"):
            raise Wrong(f"Python model {header['model']} does not implement `execute` method.")
        if hasattr(self._model, "initialize"):
            self._model.initialize(header["arguments"])
        return {}

    def complete(self, header: dict[str, Any]) -> dict[str, Any]:
        """Return the configuration as the model completes it, and whether it has a say."""
        WORKER.model = header["model"]
        kind, config = self._kind(header["file"]), ModelConfig(header["config"])
        has = hasattr(kind, "auto_complete_config")
        if has:
            config = kind.auto_complete_config(config)
        if not isinstance(config, ModelConfig):
            raise Wrong(
                "auto_complete_config function in model '"
                f"{header['model']}' must return a valid pb.ModelConfig object."
            )
        return {"config": config.as_dict(), "has": has}

    def _kind(self, file: str) -> Any:
        if self._module is None:
            WORKER.folder = str(Path(file).parent)
            self._module = self._load(file)
        kind = getattr(self._module, "TritonPythonModel", None)
        if kind is None:
            raise Wrong("Python model has no class `TritonPythonModel`.")
        return kind

    def execute(
        self, first: int, told: Any, groups: list[Group]
    ) -> tuple[list[Group], dict[str, Any] | None]:
        """Execute requests whose numbers follow `first`; return what is answered at once, and what
        is told of requests whose response is not outputs alone: None where there are none."""
        requests: list[InferenceRequest] = []
        try:
            requests = requests_of(first, told, groups)
            returned = self._model.execute(requests)
            if type(returned) is not list and asyncio.iscoroutine(returned):
                returned = self._awaited(returned)
            outputs, more = self._responses(requests, returned)
            return self._stacking.groups_of(outputs, WORKER.outputs), more
        except BaseException:
            for one in requests:
                one.get_response_sender().closed = True
            raise

    def finalize(self) -> None:
        """Let the object end, and what its coroutines have begun."""
        if self._loop is not None and self._runs_loop is not None:
            asyncio.run_coroutine_threadsafe(_end(), self._loop)
            self._runs_loop.join(2 * _LEFT)
            if not self._runs_loop.is_alive():
                self._loop.close()
        if hasattr(self._model, "finalize"):
            self._model.finalize()

    def _awaited(self, coroutine: Any) -> Any:
        """Return what a coroutine gives; one of a decoupled model goes on behind."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._runs_loop = threading.Thread(target=self._loop.run_forever, daemon=True)
            self._runs_loop.start()
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
            raise Wrong(
                f"Python model '{WORKER.model}' is using the decoupled mode and the execute "
                "function must return None."
            )
        if not isinstance(returned, list):
            raise Wrong(f"Expected a list in the execute return, found type '{type(returned)}'.")
        if len(returned) != len(requests):
            raise Wrong(
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
                raise Wrong(
                    "Expected a None object in the execute function return list for reschduled "
                    f"request, found type '{type(response)}'."
                )
            if not isinstance(response, InferenceResponse):
                raise Wrong(
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


async def _end() -> None:
    """Stop the loop, once what is under way there has been cancelled."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for one in others:
        one.cancel()
    if others:
        await asyncio.wait(others, timeout=_LEFT)
    asyncio.get_running_loop().stop()


def said(error: Any) -> dict[str, Any]:
    """Return what is told of an exception: its text, and for the log its traceback."""
    text = str(error)[:_SAID]
    named = isinstance(error, Wrong)
    said = text if named else f"{type(error).__name__}: {text}" if text else type(error).__name__
    shown = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {
        "error": said.encode("utf-8", "backslashreplace").decode(),
        "trace": shown.encode("utf-8", "backslashreplace").decode()[-_TRACE:],
    }
