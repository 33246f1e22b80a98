"""What the server does for a model: its log, its metrics, loading other models."""

import json
from enum import Enum, IntEnum

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
    def log(message, level=LogLevel.INFO):
        header = {"do": "log", "level": int(level), "text": str(message)}
        if WORKER.engine is None:
            print(message)
        else:
            WORKER.engine.send(header)

    @staticmethod
    def log_info(message):
        Logger.log(message, LogLevel.INFO)

    @staticmethod
    def log_warn(message):
        Logger.log(message, LogLevel.WARNING)

    @staticmethod
    def log_error(message):
        Logger.log(message, LogLevel.ERROR)

    @staticmethod
    def log_verbose(message):
        Logger.log(message, LogLevel.VERBOSE)


class MetricKind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


def _told(header):
    answer, _ = WORKER.required("What a server does for models").ask(header)
    if "error" in answer:
        raise TritonModelException(answer["error"][0])
    return answer


class Metric:
    """The value of a family for one set of labels, which all workers of the server have in
    common."""

    def __init__(self, family, labels):
        self._family, self._labels = family, labels

    def increment(self, value):
        self._do("increment", value)

    def set(self, value):
        self._do("set", value)

    def observe(self, value):
        self._do("observe", value)

    def value(self):
        return self._do("value", 0.0)["value"]

    def _do(self, what, value):
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

    def __init__(self, name, description, kind):
        self._name, self._kind = name, MetricKind(kind)
        _told({"do": "family", "name": name, "description": description, "kind": self._kind.value})

    def Metric(self, labels=None, buckets=None):
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


def load_model(model_name, config="", files=None):
    """Load a model of the repository that is served; returns when requests go to it."""
    if files:
        raise TritonModelException("files are not loaded from a model; put them into the folder")
    _told({"do": "load", "model": model_name, "config": config})


def unload_model(model_name, unload_dependents=False):
    """Serve a model no more, once its requests are answered."""
    _told({"do": "unload", "model": model_name, "dependents": bool(unload_dependents)})


def is_model_ready(model_name, model_version=""):
    """Tell whether a model answers requests."""
    return _told({"do": "ready", "model": model_name, "version": str(model_version)})["ready"]


def get_model_dir():
    """Return the folder of the model's version."""
    return WORKER.folder


def read(config):
    """Return a configuration as a dictionary."""
    return json.loads(config)
