"""A model in the engine's own process: one object of its class, executed by whoever asks."""

import json
import logging
import threading
from collections.abc import Callable
from contextvars import Context as Variables
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ..python_stage import is_interrupt
from ..stage import StageError
from .asked import Run, told_of
from .calls import Calls
from .direct import DirectEngine
from .own_modules import OwnModules
from .program import ModelProgram
from .worker.triton_python_backend_utils.batches import Group
from .worker.triton_python_backend_utils.contents import copied

if TYPE_CHECKING:
    from .worker.triton_python_backend_utils.loaded import Model

_LOG: Final = logging.getLogger(__name__)


class ModelInside:
    """An instance that is loaded. It has its modules, and its context variables, which are those of
    no thread: NumPy keeps there what it does of a division by zero."""

    def __init__(self, program: ModelProgram, calls: Calls) -> None:
        """Raises StageError where the model cannot be loaded."""
        self._program, self._variables = program, Variables()
        version = Path(program.file).parent
        self._modules = OwnModules(program.model, version.parent, version)
        try:
            received: Callable[..., Any] = self._modules.utils("tensor").Tensor.received
            loaded = self._modules.utils("loaded")
            self._engine = DirectEngine(program.model, calls, received)
            self._said = cast("Callable[[BaseException], dict[str, str]]", loaded.said)
            self._model: Model = loaded.Model(self._engine, self._modules.load)
            self._load(calls.outputs)
        except BaseException:
            self._modules.close()
            raise

    def call(self, run: Run) -> None:
        """Let the model execute a run; what it has not answered then, it answers later."""
        engine = self._engine
        first = engine.open.begin(run)
        for index, one in run.asked.items():
            one.responses.attend(partial(engine.make_room, first + index))
        told = told_of(run)
        engine.thread = threading.get_ident()
        try:
            groups, more = self._variables.run(
                self._model.execute, first, told if any(told) else None, [*map(_own, run.groups)]
            )
            groups = [*map(_own, groups)]
        except BaseException as error:  # whatever it is, who has asked is told
            groups, more = [], self._said(error)
            if is_interrupt(error):
                engine.open.fail(run, StageError(more["error"]))
                raise
        finally:
            engine.thread = None
        engine.open.end(first, groups, more, self._program.arguments["model_instance_name"])

    def interrupt(self) -> None:
        """Let whatever it waits for end."""
        self._engine.interrupt()

    def close(self) -> None:
        """Let it end; nobody is asking it."""
        try:
            self._variables.run(self._model.finalize)
        except BaseException as error:
            if is_interrupt(error):
                raise
            _LOG.exception("model `%s`: its `finalize` failed", self._program.model)
        finally:
            self._engine.end()
            self._modules.close()

    def _load(self, outputs: list[str]) -> None:
        try:
            self._variables.run(self._initialize, outputs)
        except BaseException as error:
            if is_interrupt(error):
                raise
            said = self._said(error)
            raise StageError(said["error"], detail=said["trace"]) from None

    def _initialize(self, outputs: list[str]) -> None:
        program, arguments = self._program, dict(self._program.arguments)
        named = {"model": program.model, "file": program.file}
        if program.completes:
            found = self._model.complete({**named, "config": arguments["model_config"]})
            arguments["model_config"] = json.dumps(found["config"])
        more = {"arguments": arguments, "outputs": outputs, "decoupled": program.decoupled}
        self._model.initialize({**named, **more})


def _own(group: Group) -> Group:
    """Return a group whose arrays nobody else has, as at the other end of a socket: a model writes
    to its inputs, and gives a buffer of its own that it writes to the next time."""
    layout, counts, arrays = group
    pairs = zip(layout.tensors, arrays, strict=True)
    return Group(layout, counts, [copied(datatype, array) for (_, datatype, _), array in pairs])
