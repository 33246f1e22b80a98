"""Extension: the settings of the log, which change its level while the server runs.

What is switched off is all that weighs less than what is on: the log has a level, not a switch for
each kind of line. Where it goes to, and in what form, is set where the server is started.
"""

import logging
from typing import Any

from ...access import Access, Caller
from ...request import Code, Fault, RequestError
from ...service import Service
from ..names import shown
from ..operation import Arguments, Operation

NAMES = ("logging",)


def served(service: Service) -> bool:
    """Whether a server has it."""
    return service.policy.serves(Access.SETTINGS)


_LOG = logging.getLogger("headrace")
_SWITCHES = {"log_error": logging.ERROR, "log_warning": logging.WARNING, "log_info": logging.INFO}
_VERBOSE = "log_verbose_level"
_NONE = logging.CRITICAL + 1
_FIXED = {"log_file": "", "log_format": "default"}


def _settings(_: Service, asked: Arguments, __: Caller) -> Any:  # Any: JSON
    if asked:
        _LOG.setLevel(_changed(_LOG.getEffectiveLevel(), asked))
    return _shown(_LOG.getEffectiveLevel())


def _shown(level: int) -> dict[str, bool | int | str]:
    return {
        "log_file": _FIXED["log_file"],
        "log_info": level <= logging.INFO,
        "log_warning": level <= logging.WARNING,
        "log_error": level <= logging.ERROR,
        _VERBOSE: int(level <= logging.DEBUG),
        "log_format": _FIXED["log_format"],
    }


def _changed(level: int, changes: Arguments) -> int:
    """Return the level after some settings have changed; raises RequestError."""
    wanted = _shown(level)
    for name, value in changes.items():
        if name in _FIXED:
            raise Fault(Code.UNSUPPORTED, f"`{name}` is set where the server is started")
        if name not in wanted:
            raise RequestError(f"there is no setting {shown(name)}")
        if name == _VERBOSE:
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise RequestError(f"`{name}` must be a whole number, got {shown(str(value))}")
        elif not isinstance(value, bool):
            raise RequestError(f"`{name}` must be true or false, got {shown(str(value))}")
        wanted[name] = value
    if changes.get(_VERBOSE):
        return logging.DEBUG
    on = [number for name, number in _SWITCHES.items() if wanted[name]]
    found = min(on, default=_NONE)
    if any(not wanted[name] for name, number in _SWITCHES.items() if number > found):
        raise RequestError("what is more severe than what is logged cannot be switched off")
    if wanted[_VERBOSE] and found == logging.INFO:
        return logging.DEBUG
    return found


def _fields(message: Any) -> Arguments:  # Any: a LogSettingsRequest
    return {
        name: getattr(value, choice)
        for name, value in message.settings.items()
        if (choice := value.WhichOneof("parameter_choice"))
    }


def _message(settings: dict[str, bool | int | str]) -> Any:  # Any: JSON
    kinds = {bool: "bool_param", int: "uint32_param", str: "string_param"}
    return {"settings": {name: {kinds[type(value)]: value} for name, value in settings.items()}}


OPERATIONS = (
    Operation(
        "LogSettings",
        Access.SETTINGS,
        "The settings of the log; a body changes those that it names",
        (("GET", "/v2/logging"), ("POST", "/v2/logging")),
        _settings,
        _fields,
        _message,
    ),
)
