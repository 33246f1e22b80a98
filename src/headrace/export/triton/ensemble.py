"""Pipelines that are ensembles: models of Triton's one after the other, and nothing between them.

Whatever else a pipeline says (a condition, a loop, a default, a check, a time limit) an ensemble
has no word for; `why_not` says what it was.
"""

from collections.abc import Sequence

from ...compiler.plan import Block, CallStep, ModelSegment, Place, Plan, TransferStep
from ...runtime.protocols.configuration import model_config
from ...runtime.protocols.forms import Kind
from ...runtime.protocols.models import Model
from .config import Json
from .stages import Form, Models, Served, can_be_served, form_for_rows

_ALIKE = ("name", "max_batch_size", "input", "output", "parameters")


def why_not(model: Model) -> str | None:
    """Return why a pipeline is no ensemble, None where it is one."""
    pipeline, body = model.pipeline, model.pipeline.body
    if pipeline.stream:
        return "it is a stream"
    if pipeline.idle is not None:
        return "it keeps something of a sequence"
    if pipeline.deadline is not None:
        return "it has a deadline"
    for step in body.steps:
        if not isinstance(step, CallStep | TransferStep):
            return f"`{_first(step.place)}` at {step.place}"
        if isinstance(step, CallStep):
            reason = _step_not(model.plan, step, pipeline.batch)
            if reason is not None:
                return reason
    if any(one.has_default for one in pipeline.parameters):
        return "an input has a default"
    forms = (*model.inputs.values(), *model.outputs.values())
    if any(form.kind not in (Kind.TENSOR, Kind.SCALAR) or form.optional for form in forms):
        return "a value is a list or optional"
    if body.constants:
        return "it has literals"
    read = {slot for step in body.steps if isinstance(step, CallStep) for slot in step.inputs}
    alias = _aliases(body)
    if not set(body.params) <= {alias.get(slot, slot) for slot in read}:
        return "an input is not read"
    results = [alias.get(slot, slot) for slot in body.results]
    if len(set(results)) != len(results) or set(results) & set(body.params):
        return "a result is an input, or another result"
    return None if body.steps else "nothing is called"


def ensemble_config(model: Model, models: Models) -> Json:
    """Return the configuration of a pipeline that is an ensemble."""
    pipeline, body = model.pipeline, model.pipeline.body
    alias, names = _aliases(body), _names(model)
    form = Form.ITEM if pipeline.batch is None else Form.ROWS
    steps: list[Json] = []
    for step in body.steps:
        if isinstance(step, CallStep):
            models.serve(step.segment, form, pipeline.batch or 1)
            served = models.of(step.segment, form)
            if served is None:
                raise AssertionError("`why_not` has let it pass")
            steps.append(_step(served, step, alias, names))
    config = {key: value for key, value in model_config(model).items() if key in _ALIKE}
    return config | {"platform": "ensemble", "ensemble_scheduling": {"step": steps}}


def _step_not(plan: Plan, step: CallStep, batch: int | None) -> str | None:
    segment = plan.segments[step.segment]
    if not isinstance(segment, ModelSegment) or not can_be_served(segment):
        return f"`{segment.name}` at {step.place} is no model of its own"
    if segment.checks or segment.where:
        return f"sizes are checked at `{segment.name}`"
    if batch is None and segment.batching is not None:
        return f"rows of requests without a batch axis meet at `{segment.name}`"
    if batch is not None and form_for_rows(segment) is not Form.ROWS:
        return f"`{segment.name}` takes no rows on axis 0"
    return None


def _step(served: Served, step: CallStep, alias: dict[int, int], names: dict[int, str]) -> Json:
    def mapped(tensors: Sequence[str], slots: Sequence[int]) -> dict[str, str]:
        pairs = zip(tensors, slots, strict=True)
        return {tensor: names[alias.get(slot, slot)] for tensor, slot in pairs}

    return {
        "model_name": served.name,
        "model_version": "-1",
        "input_map": mapped(served.segment.input_names, step.inputs),
        "output_map": mapped(served.segment.output_names, step.outputs),
    }


def _aliases(body: Block) -> dict[int, int]:
    """Return the slot that each copy to a device is of: where tensors lie is Triton's to say."""
    alias: dict[int, int] = {}
    for step in body.steps:
        if isinstance(step, TransferStep):
            alias[step.target] = alias.get(step.source, step.source)
    return alias


def _names(model: Model) -> dict[int, str]:
    """Return a name for each slot: that of the input or result, or as in the source."""
    pipeline, body = model.pipeline, model.pipeline.body
    alias = _aliases(body)
    fields = [one.field for one in pipeline.parameters]
    names = {slot: field.name for slot, field in zip(body.params, fields, strict=True)}
    for slot, field in zip(body.results, pipeline.results, strict=True):
        names[alias.get(slot, slot)] = field.name
    taken = set(names.values())
    for slot in range(body.slots):
        if slot not in names:
            said = body.names[slot] if slot < len(body.names) else ""
            name = said if said and said not in taken else f"{said or 'value'}_{slot}"
            names[slot] = name
            taken.add(name)
    return names


def _first(place: Place) -> str:
    return place.text[place.column - 1 :].strip()
