"""Settings that exclude each other or miss a part: cache, metrics."""

from collections.abc import Iterator

from ...dsl.diagnostic import Diagnostic, Label
from ..subject import Subject

_CODE = "HR614"


def check(subject: Subject) -> Iterator[Diagnostic]:
    config = subject.config
    if config.response_cache.enable and config.HasField("sequence_batching"):
        yield subject.error(
            _CODE,
            "answers are kept for later, though they depend on the sequence",
            "response_cache",
            others=(Label(subject.place("sequence_batching"), "sequences"),),
            help="leave out `response_cache`",
        )
    if config.response_cache.enable and config.model_transaction_policy.decoupled:
        yield subject.error(
            _CODE,
            "answers are kept for later, though a request has several",
            "response_cache",
            others=(Label(subject.place("model_transaction_policy", "decoupled"), "decoupled"),),
            help="leave out `response_cache`",
        )
    for i, control in enumerate(config.model_metrics.metric_control):
        path = ("model_metrics", "metric_control", i)
        if not control.metric_identifier.family:
            yield subject.error(
                _CODE,
                "a metric without a family",
                *path,
                help='write `metric_identifier { family: "..." }`',
            )
        if not control.histogram_options.buckets:
            yield subject.error(
                _CODE,
                "a metric without buckets",
                *path,
                help="write `histogram_options { buckets: [ 1, 10, 100 ] }`",
            )
