"""Pipelines as the protocol's models: how one is found by name and version."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from ...compiler.plan import PipelinePlan, Plan
from ...stdlib.op import Item
from ..request import Code, Fault, RequestError
from .forms import Form, Kind, NoForm, form_of
from .layouts import Layout
from .names import is_name, shown

ModelKey: TypeAlias = tuple[str, str]
"""A model's name and its version."""


@dataclass(frozen=True, slots=True)
class Described:
    """What a repository of configurations says of a model: `config` is the JSON form of its
    `ModelConfig`, `labels` name classes by output, `warmups` are inputs that it runs with before
    it is served. Which model, in which version, each of its stages is, is said in `models`; how
    often an ensemble is `nested` in it, by that one's name and version."""

    config: Mapping[str, Any]  # Any: JSON
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    warmups: tuple[Mapping[str, Item], ...] = field(default=(), compare=False)
    models: Mapping[str, ModelKey] = field(default_factory=dict[str, ModelKey])
    nested: Mapping[ModelKey, int] = field(default_factory=dict[ModelKey, int])

    @property
    def is_ensemble(self) -> bool:
        return bool(self.config.get("ensemble_scheduling"))


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A pipeline with the forms of its values. `shape_inputs` and `shape_outputs` map each
    `NAME_shape` to the ragged value that it belongs to. `described` is what it is said to be where
    that is not told by the plan. `layouts` are known JSON of requests, `heads` that of answers, by
    the names and shapes in it."""

    name: str
    version: str
    plan: Plan
    pipeline: PipelinePlan
    inputs: Mapping[str, Form]
    outputs: Mapping[str, Form]
    shape_inputs: Mapping[str, Form]
    shape_outputs: Mapping[str, Form]
    described: Described | None = None
    layouts: dict[bytes, Layout] = field(default_factory=dict[bytes, Layout])
    heads: dict[tuple[object, ...], bytes] = field(default_factory=dict[tuple[object, ...], bytes])

    @property
    def valid_inputs(self) -> str:
        return ", ".join(f"`{name}`" for name in (*self.inputs, *self.shape_inputs)) or "none"

    @property
    def valid_outputs(self) -> str:
        return ", ".join(f"`{name}`" for name in (*self.outputs, *self.shape_outputs)) or "none"

    def wanted(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the results that hold the named outputs, in the order asked for.

        The two tensors of a ragged result come together, whichever is named.
        """
        results: dict[str, None] = {}
        for name in names:
            form = self.outputs.get(name) or self.shape_outputs.get(name)
            if form is None:
                raise RequestError(
                    f"there is no output {shown(name)}; the outputs are {self.valid_outputs}",
                    pipeline=self.name,
                )
            results[form.name] = None
        return tuple(results)


def model_of(
    plan: Plan, pipeline: PipelinePlan, version: str, described: Described | None = None
) -> Model:
    """Prepare a pipeline for the wire; NoForm, naming it, when one of its values cannot travel."""
    batched = pipeline.batch is not None
    try:
        inputs = [form_of(parameter.field, batched) for parameter in pipeline.parameters]
        outputs = [form_of(field, batched) for field in pipeline.results]
    except NoForm as error:
        raise NoForm(f"pipeline `{pipeline.name}` cannot be served: {error}") from None
    return Model(
        pipeline.name,
        version,
        plan,
        pipeline,
        _by_name(inputs),
        _by_name(outputs),
        _by_shape_name(inputs),
        _by_shape_name(outputs),
        described,
    )


def _by_name(forms: Iterable[Form]) -> Mapping[str, Form]:
    return MappingProxyType({form.name: form for form in forms})


def _by_shape_name(forms: Iterable[Form]) -> Mapping[str, Form]:
    ragged = (form for form in forms if form.kind is Kind.RAGGED)
    return MappingProxyType({form.shape_name: form for form in ragged})


def unknown_model(name: str, version: str) -> Fault:
    """Return the fault for a model that is not served, in the words that clients look for."""
    if not is_name(name) or (version and not is_name(version)):
        return Fault(Code.NOT_FOUND, f"Request for unknown model: {shown(name)} is no model's name")
    which = f"'{name}'" + (f" version {version}" if version else "")
    return Fault(Code.NOT_FOUND, f"Request for unknown model: {which} is not found")
