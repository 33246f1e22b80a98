"""A pipeline's signature as a parameter of its configuration, and read from it again.

The protocol's own words know no names of dimensions, no defaults, and one type for `string` and
`bytes`; a client that is to call a pipeline as one that is loaded beside it needs all of them.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final, cast

from ...compiler.plan import Block, Parameter, PipelinePlan, Place
from ...dsl.types import Field
from ...stdlib.op import Literal
from ..literals import plain_literal
from .type_text import read_type

SIGNATURE: Final = "headrace.signature"
"""The name of the parameter."""

_NOWHERE = Place("", 0, 0, "")
_NOTHING = Block((), (), (), (), (), 0, ())


def write_signature(pipeline: PipelinePlan, version: str = "") -> str:
    """Return what a caller may know of a pipeline, as a text; `version` is that which is served."""
    signature: dict[str, Any] = {  # Any: JSON
        "version": version,
        "inputs": [_parameter(one) for one in pipeline.parameters],
        "results": [[field.name, str(field.type)] for field in pipeline.results],
    }
    if pipeline.batch is not None:
        signature["batch"] = pipeline.batch
    if pipeline.stream:
        signature["stream"] = True
    if pipeline.idle is not None:
        signature["idle"] = pipeline.idle
        signature["numbered"] = any(one.name == "number" for one in pipeline.controls)
    return json.dumps(signature)


def read_signature(name: str, text: str) -> PipelinePlan:
    """Return the pipeline as far as a caller may know it: its body is empty."""
    found = json.loads(text)
    numbered = (Field("number", read_type("i64")),) if found.get("numbered") else ()
    return signature_of(
        name,
        tuple(_read_parameter(*one) for one in found["inputs"]),
        tuple(Field(result, read_type(kind)) for result, kind in found["results"]),
        batch=found.get("batch"),
        stream=found.get("stream", False),
        idle=found.get("idle"),
        controls=numbered,
    )


def signature_of(
    name: str,
    inputs: tuple[Parameter, ...],
    results: tuple[Field, ...],
    *,
    batch: int | None,
    stream: bool,
    idle: float | None,
    controls: tuple[Field, ...] = (),
) -> PipelinePlan:
    """Return a pipeline of which no more is known."""
    return PipelinePlan(
        name,
        inputs,
        results,
        _NOTHING,
        batch,
        None,
        None,
        _NOWHERE,
        stream=stream,
        idle=idle,
        controls=controls,
    )


def _parameter(parameter: Parameter) -> list[Any]:  # Any: JSON
    said = [parameter.field.name, str(parameter.field.type)]
    return [*said, _write(parameter.default)] if parameter.has_default else said


def _read_parameter(name: str, kind: str, *default: Any) -> Parameter:  # Any: JSON
    return Parameter(Field(name, read_type(kind)), bool(default), _read(*default or (None,)))


def _write(literal: Literal) -> Any:  # Any: JSON
    match plain_literal(literal):
        case tuple() as items:
            return [_write(one) for one in items]
        case bytes() as content:
            return {"bytes": b64encode(content).decode()}
        case bool() | int() | float() | str() | None as plain:
            return plain
        case other:
            raise AssertionError(f"no input has the default {other!r}")


def _read(value: Any) -> Literal:  # Any: JSON
    match value:
        case list():
            return tuple(map(_read, cast("list[object]", value)))
        case {"bytes": str(encoded)}:
            return b64decode(encoded)
        case _:
            return value


def version_in(config: Mapping[str, Any]) -> str:  # Any: JSON
    """Return the version that a configuration is of; empty where the server does not tell."""
    text = signature_in(config)
    return "" if text is None else json.loads(text).get("version", "")


def signature_in(config: Mapping[str, Any]) -> str | None:  # Any: JSON
    """Return the text in a configuration; None where a server of another kind has made it."""
    parameter = config.get("parameters", {}).get(SIGNATURE)
    return None if parameter is None else parameter["string_value"]
