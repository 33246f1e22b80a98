"""Extension: the settings of tracing, which change how many requests are recorded.

    trace_level  OFF, or TIMESTAMPS: whether requests are recorded unasked
    trace_rate   one of so many requests is

They are those of all models. Where recordings go to, and whether a request may ask for its own, is
set where the server is started; a server that was started without records nothing, and says so.
"""

from typing import Any

from ...access import Access, Caller
from ...observe.observer import Observer
from ...request import Code, Fault, RequestError
from ...service import Service
from ..names import shown
from ..operation import Arguments, Operation

NAMES = ("trace",)

_LEVEL, _RATE = "trace_level", "trace_rate"
_OFF, _ON = "OFF", "TIMESTAMPS"
_USUAL = 1000  # one of so many, where nothing else is said
_FIXED = ("trace_file", "trace_mode", "trace_count", "log_frequency")


def served(service: Service) -> bool:
    """Whether a server has it."""
    return service.observer is not None and service.policy.serves(Access.SETTINGS)


def _settings(service: Service, asked: Arguments, _: Caller) -> Any:  # Any: JSON
    observer, changes = service.observer, dict(asked)
    if model := changes.pop(_MODEL, ""):
        service.find(model)
        if changes:
            raise Fault(Code.UNSUPPORTED, "the settings of tracing are those of all models")
    if observer is None:
        if changes:
            raise Fault(Code.UNSUPPORTED, "the extension trace is not served: nothing is recorded")
        return {_LEVEL: [_OFF]}
    if changes:
        observer.set_rate(_changed(observer.rate, changes))
    return _shown(observer)


_MODEL = "model_name"


def _shown(observer: Observer) -> dict[str, list[str] | str]:
    rate = observer.rate
    every = round(1 / rate) if rate else _USUAL
    return {_LEVEL: [_ON if rate else _OFF], _RATE: str(every)}


def _changed(rate: float, changes: Arguments) -> float:
    """Return the share of requests to record after some settings have changed."""
    every, on = round(1 / rate) if rate else _USUAL, rate > 0
    for name, value in changes.items():
        words = _words(name, value)
        match name:
            case "trace_level" if words in ([_OFF], [_ON]):
                on = words == [_ON]
            case "trace_rate" if len(words) == 1 and words[0].isascii() and words[0].isdigit():
                every = int(words[0])
            case _ if name in _FIXED:
                raise Fault(Code.UNSUPPORTED, f"`{name}` is set where the server is started")
            case "trace_level" | "trace_rate":
                raise RequestError(f"`{name}` cannot be {shown(str(value))}")
            case _:
                raise RequestError(f"there is no setting {shown(name)}")
    return 1 / every if on and every else 0.0


def _words(name: str, value: object) -> list[str]:
    """Return what a setting is given: a text, or a list of them."""
    words: list[object] = [*value] if isinstance(value, list) else [value]
    if all(isinstance(word, str | int) and not isinstance(word, bool) for word in words):
        return [str(word) for word in words]
    raise RequestError(f"`{name}` cannot be {shown(str(value))}")


def _fields(message: Any) -> Arguments:  # Any: a TraceSettingRequest
    changes = {name: list(value.value) for name, value in message.settings.items()}
    return {**changes, _MODEL: message.model_name}


def _message(settings: dict[str, list[str] | str]) -> Any:  # Any: JSON
    lists = {name: [value] if isinstance(value, str) else value for name, value in settings.items()}
    return {"settings": {name: {"value": value} for name, value in lists.items()}}


OPERATIONS = (
    Operation(
        "TraceSetting",
        Access.SETTINGS,
        "The settings of tracing; a body changes those that it names",
        tuple(
            (method, f"/v2{model}/trace/setting")
            for model in ("", f"/models/{{{_MODEL}}}")
            for method in ("GET", "POST")
        ),
        _settings,
        _fields,
        _message,
    ),
)
