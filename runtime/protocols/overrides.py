"""What whoever loads a model may say of its configuration: how many rows a request may have.

All else is as the plan was compiled. It may be said again, as clients do that send a configuration
back which they have read, and is refused where it is another.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from google.protobuf import json_format

from ...compiler.plan import PipelinePlan, Plan
from ..request import RequestError
from .configuration import model_config
from .messages import ModelConfig
from .models import model_of
from .names import shown

_MOST_ROWS = "max_batch_size"


def read_override(name: str, text: object) -> Callable[[Plan], Plan]:
    """Return what makes the plan that a model is to be loaded with of the one that is found.

    Raises RequestError where the text is no configuration; the function raises ValueError where it
    asks for what it may not.
    """
    try:
        if not isinstance(text, str):
            raise json_format.ParseError("it is no text")
        given = _members(json_format.Parse(text, ModelConfig()))
    except (json_format.ParseError, RecursionError, UnicodeError) as error:
        raise RequestError(
            f"failed to load '{name}': the configuration cannot be read: {shown(str(error))}"
        ) from None

    def override(plan: Plan) -> Plan:
        chosen = _chosen(plan, name)
        changed = replace(chosen, batch=_rows(chosen, given))
        _check_the_rest(plan, changed, given)
        pipelines = tuple(changed if one is chosen else one for one in plan.pipelines)
        return replace(plan, pipelines=pipelines)

    return override


def _members(message: Any) -> dict[str, Any]:  # Any: a ModelConfig, its JSON
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def _chosen(plan: Plan, name: str) -> PipelinePlan:
    """Return the pipeline that a configuration is of."""
    named = [one for one in plan.pipelines if one.name == name] or list(plan.pipelines)
    if len(named) == 1:
        return named[0]
    names = ", ".join(f"`{one.name}`" for one in named)
    raise ValueError(f"the configuration is of one of {names}: load it by that name")


def _rows(pipeline: PipelinePlan, given: dict[str, Any]) -> int | None:  # Any: JSON
    rows = given.get(_MOST_ROWS)
    if rows is None:
        return pipeline.batch
    if pipeline.batch is None or rows < 1:
        raise ValueError(
            f"`{_MOST_ROWS}` is {rows}, but `{pipeline.name}` "
            + ("has no `batch`" if pipeline.batch is None else "takes at least one row")
        )
    return rows


def _check_the_rest(plan: Plan, pipeline: PipelinePlan, given: dict[str, Any]) -> None:  # Any: JSON
    is_so = _members(
        json_format.ParseDict(model_config(model_of(plan, pipeline, "1")), ModelConfig())
    )
    for member, value in given.items():
        if value != is_so.get(member):
            raise ValueError(
                f"`{member}` cannot be set by a load: plans come from the server's own folder "
                f"with the schedules that they were compiled with; only `{_MOST_ROWS}` can"
            )
