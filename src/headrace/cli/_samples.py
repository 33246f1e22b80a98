"""`--sample name=value`: inputs for the pipelines that take them, to measure or to compare with."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from . import _values
from .command import UsageError
from .infer import wanted

if TYPE_CHECKING:
    from ..compiler.plan import Plan


def samples(
    plan: "Plan", given: Mapping[str, list[str]]
) -> Mapping[str, Mapping[str, _values.Value]]:
    """Return the values for each pipeline that takes all of them and needs no others."""
    found: dict[str, Mapping[str, _values.Value]] = {}
    for pipeline in plan.pipelines:
        names = {parameter.field.name: parameter.has_default for parameter in pipeline.parameters}
        needed = {name for name, has_default in names.items() if not has_default}
        if needed <= given.keys() <= names.keys():
            found[pipeline.name] = _values.read(given, wanted(pipeline))
    if not found:
        inputs = "; ".join(
            f"{one.name} takes {', '.join(str(p.field) for p in one.parameters) or 'nothing'}"
            for one in plan.pipelines
        )
        raise UsageError(f"no pipeline takes {', '.join(given)} and nothing else", inputs)
    return found
