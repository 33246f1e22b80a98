"""What the server does for a model: its log, its metrics, loading other models."""

from __future__ import annotations

import json
from enum import Enum, IntEnum
from typing import Any

from .engine import WORKER
from .tensor import TritonModelException


class LogLevel(IntEnum):
    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3


class Logger:
    """Writes to the server's log."""

    LogLevel = LogLevel
    INFO, WARNING, ERROR, VERBOSE = LogLevel

    @staticmethod
    def log(message: str, level: int = LogLevel.INFO) -> None:
        header = {"do": "log", "level": int(level), "text": str(message)}
        if WORKER.engine is None:
            print(message)
        else:
            WORKER.engine.send(header)

    @staticmethod
    def log_info(message: str) -> None:
        Logger.log(message, LogLevel.INFO)

    @staticmethod
    def log_warn(message: str) -> None:
        Logger.log(message, LogLevel.WARNING)

    @staticmethod
    def log_error(message: str) -> None:
        Logger.log(message, LogLevel.ERROR)

    @staticmethod
    def log_verbose(message: str) -> None:
        Logger.log(message, LogLevel.VERBOSE)


class MetricKind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


def _told(header: dict[str, Any]) -> dict[str, Any]:
    answer, _ = WORKER.required("What a server does for models").ask(header)
    if "error" in answer:
        raise TritonModelException(answer["error"][0])
    return answer


class Metric:
    """The value of a family for one set of labels, which all workers of the server have in
    common."""

    def __init__(self, family: str, labels: Any) -> None:
        self._family, self._labels = family, labels

    def increment(self, value: float) -> None:
        self._do("increment", value)

    def set(self, value: float) -> None:
        self._do("set", value)

    def observe(self, value: float) -> None:
        self._do("observe", value)

    def value(self) -> float:
        return self._do("value", 0.0)["value"]

    def _do(self, what: str, value: float) -> dict[str, Any]:
        return _told(
            {
                "do": "metric",
                "family": self._family,
                "labels": self._labels,
                "what": what,
                "value": float(value),
            }
        )


class MetricFamily:
    """A metric by its name."""

    COUNTER, GAUGE, HISTOGRAM = MetricKind

    def __init__(self, name: str, description: str, kind: Any) -> None:
        self._name, self._kind = name, MetricKind(kind)
        _told({"do": "family", "name": name, "description": description, "kind": self._kind.value})

    def Metric(self, labels: Any = None, buckets: Any = None) -> Metric:
        if labels is not None and not isinstance(labels, dict):
            raise TritonModelException("Failed to create metric. Labels must be a dictionary.")
        if buckets is not None and not isinstance(buckets, list):
            raise TritonModelException("Failed to create metric. Buckets must be a list.")
        if buckets is not None and self._kind is not MetricKind.HISTOGRAM:
            raise TritonModelException("Failed to create metric. Unexpected buckets found.")
        if buckets is None and self._kind is MetricKind.HISTOGRAM:
            raise TritonModelException("Failed to create metric. Missing required buckets.")
        pairs = sorted((str(name), str(value)) for name, value in (labels or {}).items())
        _told({"do": "labels", "family": self._name, "labels": pairs, "buckets": buckets})
        return Metric(self._name, pairs)


def load_model(model_name: str, config: str = "", files: Any = None) -> None:
    """Load a model of the repository that is served; returns when requests go to it."""
    if files:
        raise TritonModelException("files are not loaded from a model; put them into the folder")
    _told({"do": "load", "model": model_name, "config": config})


def unload_model(model_name: str, unload_dependents: bool = False) -> None:
    """Serve a model no more, once its requests are answered."""
    _told({"do": "unload", "model": model_name, "dependents": bool(unload_dependents)})


def is_model_ready(model_name: str, model_version: object = "") -> bool:
    """Tell whether a model answers requests."""
    return _told({"do": "ready", "model": model_name, "version": str(model_version)})["ready"]


def get_model_dir() -> str:
    """Return the folder of the model's version."""
    return WORKER.folder


def read(config: str) -> Any:
    """Return a configuration as a dictionary."""
    return json.loads(config)
