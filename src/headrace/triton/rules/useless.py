"""What is written and does nothing: warnings, for it was hardly meant so."""

from collections.abc import Iterator

from ...dsl.diagnostic import Diagnostic
from ..complete import PYTHON
from ..subject import Subject, listed
from .backends import BACKENDS

_CODE = "HR630"
_OF_BATCHES = ("batch_input", "batch_output")
_USELESS = {
    "ensemble": ("default_model_filename", "model_operations", "runtime", *_OF_BATCHES),
    PYTHON: _OF_BATCHES,
}
"""Fields that say nothing to an ensemble, or to the models of a backend."""


def check(subject: Subject) -> Iterator[Diagnostic]:
    config, written = subject.config, subject.model.message
    if written.HasField("dynamic_batching"):
        yield from _batching(subject)
    for i, tensor in enumerate(config.input):
        yield from _ragged(subject, i, tensor.name, tensor.allow_ragged_batch)
    useless = _USELESS.get("ensemble" if subject.is_ensemble else config.backend, ())
    for name in useless:
        if name in {one[0].name for one in written.ListFields()}:
            what = "an ensemble" if subject.is_ensemble else "a Python model"
            yield subject.warning(
                _CODE, f"`{name}` has no effect on {what}", name, help="leave it out"
            )
    if written.metric_tags:
        yield subject.warning(
            _CODE, "metrics are told without tags", "metric_tags", help="leave it out"
        )
    yield from _placeholders(subject)


def _placeholders(subject: Subject) -> Iterator[Diagnostic]:
    """Tell once of all parameters: templates have dozens."""
    places = {
        key: ("parameters", key, "value", "string_value")
        for key, one in subject.model.message.parameters.items()
        if "${" in one.string_value
    }
    keys = sorted(places, key=lambda key: subject.place(*places[key]).start)
    if keys:
        several = "the parameters {} hold placeholders" if len(keys) > 1 else ""
        yield subject.warning(
            "HR602",
            (several or "the parameter {} holds a placeholder").format(listed(keys))
            + " of a template",
            *places[keys[0]],
            help="fill in the template first, if it is one",
        )


def _batching(subject: Subject) -> Iterator[Diagnostic]:
    batching, path = subject.model.message.dynamic_batching, "dynamic_batching"
    if subject.config.max_batch_size == 0:
        yield subject.warning(
            _CODE,
            "requests are not gathered, for the model takes no batches",
            path,
            help="write `max_batch_size`, and leave the batch axis out of `dims`",
        )
    if batching.priority_levels == 0:
        if batching.default_priority_level:
            yield subject.warning(
                _CODE,
                "a priority without levels",
                path,
                "default_priority_level",
                help="write `priority_levels`",
            )
        # An empty block is an entry of its own, as in configurations that a program has written.
        if any(key or one.ListFields() for key, one in batching.priority_queue_policy.items()):
            yield subject.warning(
                _CODE,
                "queues of priorities without levels",
                path,
                "priority_queue_policy",
                help="write `priority_levels`",
            )
    policy = batching.default_queue_policy
    if policy.timeout_action and not (
        policy.default_timeout_microseconds or policy.allow_timeout_override
    ):
        yield subject.warning(
            _CODE,
            "no request is ever late",
            path,
            "default_queue_policy",
            "timeout_action",
            help="write `default_timeout_microseconds`",
        )


def _ragged(subject: Subject, i: int, name: str, allowed: bool) -> Iterator[Diagnostic]:
    if not allowed:
        return
    path = ("input", i, "allow_ragged_batch")
    if subject.is_ensemble:
        yield subject.warning(
            "HR627",
            f"`{name}` is ragged where nothing is gathered",
            *path,
            help="write `allow_ragged_batch` in the configuration of the member that it goes to",
        )
    elif subject.config.max_batch_size == 0:
        yield subject.warning(
            "HR627",
            f"`{name}` is ragged, but the model takes no batches",
            *path,
            help="write `max_batch_size`",
        )
    elif not any(name in one.source_input for one in subject.config.batch_input) and (
        # Python is shown the requests one by one; what is unknown here may be told otherwise.
        subject.config.backend in BACKENDS and subject.config.backend != PYTHON
    ):
        yield subject.warning(
            "HR627",
            f"nothing tells the model where the values of `{name}` end for each request",
            *path,
            help=f'write `batch_input [ {{ kind: BATCH_ELEMENT_COUNT source_input: "{name}" '
            "target_name: ... data_type: TYPE_INT32 } ]`",
        )
