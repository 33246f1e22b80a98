"""What a model says of its own configuration: `auto_complete_config`, run in a worker."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..custom_metrics import CustomMetrics
from ..load_error import BAD_MODEL, LoadError
from ..nested_models import Found, NestedModels
from ..protocols.models import unknown_model
from ..request import Request
from ..stage import StageError, StageGone
from .calls import Calls
from .config import Config, arguments, parameter
from .environment import interpreter
from .process import ModelProcess
from .program import ModelProgram


def completed(file: Path, config: Mapping[str, Any]) -> Config:  # Any: JSON
    """Return a configuration, as JSON has it, as the model in `file` completes it; the same where
    it has no say. The file is `MODEL/VERSION/model.py`. Raises LoadError."""
    folder, version = file.parent.parent, file.parent.name
    with ExitStack() as closing:
        python, variables = None, dict[str, str]()
        if environment := parameter(dict(config), "EXECUTION_ENV_PATH"):
            where = closing.enter_context(TemporaryDirectory(prefix="headrace-env-"))
            python, variables = interpreter(environment, folder, Path(where))
        program = ModelProgram(
            config["name"],
            config["name"],
            str(file),
            arguments(dict(config), folder, version, "cpu", 0),
            decoupled=False,
            python=python,
            variables=variables,
        )
        calls = Calls(NestedModels(_nobody, CustomMetrics(), time.monotonic), [])
        closing.callback(calls.close)
        process = ModelProcess(program, calls)
        try:
            found = process.complete()
        except (StageError, StageGone) as error:
            process.kill()
            raise LoadError(BAD_MODEL, f"{file}: {error.message}") from error
        finally:
            process.finish()
            process.watch()
            process.close()
        return found


def _nobody(name: str, version: str, request: Request | None = None) -> Found:
    del request
    raise unknown_model(name, version)
