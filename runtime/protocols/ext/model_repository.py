"""Extension: what there is to be served; loading and unloading.

A model is loaded with the app that it belongs to, for a plan holds all of an app's pipelines. What
is loaded lies in the server's own folder: no file comes from a caller, unless the repository takes
some (`brought.py`), and of a configuration only what `overrides.py` says.
"""

import logging
from base64 import b64decode
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, cast

from ...access import Access, Caller
from ...repository.state import LoadFailed, State, Unknown
from ...request import Code, Fault, RequestError
from ...service import Service
from ..models import unknown_model
from ..names import is_name, shown
from ..operation import Arguments, Later, Operation, members, text
from ..overrides import read_override

_LOG = logging.getLogger(__name__)

NAMES = ("model_repository", "model_repository(unload_dependents)")


def served(service: Service) -> bool:
    """Whether a server has it."""
    return service.policy.serves(Access.CONTROL)


_STATES = {
    State.LOADING: "LOADING",
    State.READY: "READY",
    State.DRAINING: "UNLOADING",
    State.UNLOADED: "UNAVAILABLE",
    State.FAILED: "UNAVAILABLE",
}


def _index(service: Service, asked: Arguments, caller: Caller) -> Any:  # Any: JSON
    _refuse_repository(asked)
    only_ready = asked.get("ready", False)
    if not isinstance(only_ready, bool):
        raise RequestError(f"`ready` must be true or false, got {shown(str(only_ready))}")
    return [
        {
            "name": entry.pipeline,
            "version": str(entry.version),
            "state": _STATES[entry.state],
            "reason": _reason(entry.state, entry.reason, caller),
        }
        for entry in service.repository.index()
        if not only_ready or entry.state is State.READY
    ]


def _reason(state: State, reason: str, caller: Caller) -> str:
    """Return why a version is not ready; what went wrong in a load is for those who may load."""
    if state is State.FAILED and Access.CONTROL not in caller.may:
        return "it could not be loaded"
    return reason


def _load(service: Service, asked: Arguments, _: Caller) -> Later:
    name = _name(asked)
    repository, change, config = service.repository, None, None
    files: dict[str, bytes] = {}
    for parameter, value in members(asked, "parameters").items():
        if parameter.startswith("file:"):
            if not repository.takes_files:
                raise Fault(
                    Code.UNSUPPORTED,
                    f"failed to load '{name}': parameter {shown(parameter)}: files come from the "
                    "server's own folder; callers bring some where it is started with "
                    "`--allow-load-files`",
                )
            files[parameter.removeprefix("file:")] = _content(parameter, value)
            continue
        if parameter != "config":
            raise RequestError(f"there is no parameter {shown(parameter)}")
        if repository.configure is not None and isinstance(value, str):
            config = value
        else:
            change = read_override(name, value)
    if files and config is None and repository.configure is not None:
        raise RequestError(f"failed to load '{name}': files come with the `config` that is theirs")
    try:
        app = repository.app_of(name)
    except Unknown:
        app = name  # one that has never been loaded is known by its own name

    def finish(loaded: "Future[None]") -> None:
        try:
            loaded.result()
        except Unknown as error:
            raise Fault(Code.NOT_FOUND, f"failed to load '{name}': {error}") from None
        except ValueError as error:
            raise Fault(Code.INVALID, f"failed to load '{name}': {error}") from None
        except LoadFailed as failure:
            _LOG.error("%s", ascii(str(failure)))
            raise Fault(Code.INVALID, f"failed to load '{name}': {failure}") from None

    loading = repository.load_later(app, change=change, config=config, files=files)
    return Later(loading, finish)


def _content(parameter: str, value: object) -> bytes:
    """Return the bytes of a file: as they are, or in Base64 where the protocol has text alone."""
    if isinstance(value, bytes):
        return value
    try:
        return b64decode(cast("str", value), validate=True)  # TypeError where it is none
    except (TypeError, ValueError):
        raise RequestError(f"the parameter {shown(parameter)} is a file in Base64") from None


def _unload(service: Service, asked: Arguments, _: Caller) -> None:
    """Serve an app no more; the answer does not wait for the requests that are on it."""
    name = _name(asked)
    for parameter, value in members(asked, "parameters").items():
        if parameter != "unload_dependents" or not isinstance(value, bool):
            raise RequestError(f"there is no parameter {shown(parameter)} that is so")
    repository, dependents = service.repository, frozenset[str]()
    try:
        app = repository.app_of(name)
        if members(asked, "parameters").get("unload_dependents"):
            dependents = repository.needs(app)
        repository.unload(app)
    except Unknown:
        raise unknown_model(name, "") from None
    for one in dependents:
        with suppress(Unknown):  # it is gone already
            repository.unload(one)


def _name(asked: Arguments) -> str:
    _refuse_repository(asked)
    name = text(asked, "model_name")
    if not is_name(name):
        raise unknown_model(name, "")
    return name


def _refuse_repository(asked: Arguments) -> None:
    if text(asked, "repository_name"):
        raise RequestError("there is one repository, which has no name")


def _fields(message: Any) -> Arguments:  # Any: a RepositoryModelLoadRequest, or Unload
    return {
        "repository_name": message.repository_name,
        "model_name": message.model_name,
        "parameters": {
            name: getattr(value, value.WhichOneof("parameter_choice") or "bool_param")
            for name, value in message.parameters.items()
        },
    }


OPERATIONS = (
    Operation(
        "RepositoryIndex",
        Access.READ,
        "Every model that was loaded, or failed to be",
        (("POST", "/v2/repository/index"),),
        _index,
        gives=lambda models: {"models": models},
    ),
    Operation(
        "RepositoryModelLoad",
        Access.CONTROL,
        "Load a model, or load it anew",
        (("POST", "/v2/repository/models/{model_name}/load"),),
        _load,
        takes=_fields,
    ),
    Operation(
        "RepositoryModelUnload",
        Access.CONTROL,
        "Unload a model",
        (("POST", "/v2/repository/models/{model_name}/unload"),),
        _unload,
        takes=_fields,
    ),
)
