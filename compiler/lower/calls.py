"""Calls: of ops, models, functions and pipelines."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.nearest import nearest
from ...stdlib.catalog import Family
from ..graph import FunctionCall, ModelCall
from .batch_axes import note_axes
from .body import Body
from .entities import (
    Entity,
    Mistaken,
    NamedFunction,
    NamedModel,
    Routine,
    UsedFamily,
    UsedFile,
    describe,
)
from .given import Callee, Given
from .operands import BROKEN, Made, Operand
from .ops import lower_op, output_names, record
from .problems import did_mean, did_you_mean
from .scope import Local
from .type_expressions import SCALARS

FAMILIAR: Final = MappingProxyType(
    {
        "ones": "full(shape, 1)",
        "arange": "range(n)",
        "enumerate": "zip(range(len(xs)), xs)",
        "int": "cast(x, i64)",
        "float": "cast(x, f32)",
        "inf": "1.0 / 0.0",
        "nan": "0.0 / 0.0",
        "True": "true",
        "False": "false",
    }
)
"""What is called otherwise elsewhere."""


def lower_call(body: Body, call: ast.Call, names: tuple[str, ...]) -> Operand:
    """Lower a call of whatever its callee is."""
    callee = call.callee
    if isinstance(callee, ast.Name):
        return _of_name(body, call, callee, names)
    if isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Name):
        found = body.scope.find(callee.value.text)
        if isinstance(found, UsedFamily):
            return _of_family(body, call, callee, found.family, names)
        if isinstance(found, UsedFile):
            entity = found.file.find(callee.name.text)
            candidates = tuple(found.file.entities)
            return _of_entity(body, call, entity, callee.name, candidates, names)
        if found is None:
            return _unknown_module(body, call, callee.value, callee.name.text)
        if isinstance(found, Mistaken):
            return _arguments_only(body, call)
        if isinstance(found, Local) and _is_module(body, callee.value.text):
            return _hidden_module(body, call, callee.value, found)
    body.problems.error(
        "HR115", "this is a value and cannot be called", callee.span, help=_as_op(body, callee)
    )
    return _arguments_only(body, call)


def _as_op(body: Body, callee: ast.Expr) -> str | None:
    """Say how `x.mean()` is written: ops are no methods."""
    if not isinstance(callee, ast.Attribute):
        return None
    op = _full_name(body, callee.name.text)
    return f"ops are no methods: `{op}({callee.value.span.text})`" if op is not None else None


def _full_name(body: Body, name: str) -> str | None:
    """Return how an op is called, `mean` or `nn.softmax`; None where there is none."""
    if body.catalog.find(None, name) is not None:
        return name
    found = (one for one in body.catalog.families if body.catalog.find(one, name) is not None)
    return next((f"{family}.{name}" for family in found), None)


def _of_name(body: Body, call: ast.Call, callee: ast.Name, names: tuple[str, ...]) -> Operand:
    found = body.scope.find(callee.text)
    if isinstance(found, Local):
        body.problems.error(
            "HR115",
            f"`{callee.text}` is a value and cannot be called",
            callee.span,
            secondary=(Label(found.span, f"`{callee.text}` is given here"),),
        )
        return _arguments_only(body, call)
    op = body.catalog.find(None, callee.text) if found is None else None
    if op is not None:
        return lower_op(body, call, op, callee.text, names)
    if found is None and callee.text == "zip":
        body.problems.error(
            "HR115", "`zip` stands after `in` only: `for a, b in zip(xs, ys) { ... }`", callee.span
        )
        return _arguments_only(body, call)
    callables = [
        name
        for name, one in body.file.entities.items()
        if isinstance(one, NamedModel | NamedFunction | Routine)
    ]
    core = body.catalog.family("core")
    candidates = (*callables, *(core.ops if core is not None else ()))
    return _of_entity(body, call, found, callee, candidates, names)


def _of_family(
    body: Body, call: ast.Call, callee: ast.Attribute, family: Family, names: tuple[str, ...]
) -> Operand:
    op = family.ops.get(callee.name.text)
    if op is not None:
        return lower_op(body, call, op, callee.span.text, names)
    module = callee.value.span.text
    body.problems.error(
        "HR103",
        f"`{module}` has no op `{callee.name.text}`",
        callee.name.span,
        help=did_you_mean(callee.name.text, family.ops),
    )
    return _arguments_only(body, call)


def _of_entity(
    body: Body,
    call: ast.Call,
    entity: Entity | None,
    name: ast.Ident | ast.Name,
    candidates: Sequence[str],
    names: tuple[str, ...],
) -> Operand:
    match entity:
        case NamedModel(definition=model, where=where, defaults=defaults):
            kind = ModelCall(model.name)
            axes = model.input_axes
            made = Callee(model.name, model.signature, defaults, kind, where, axes)
            operand = _lower(body, call, made, names)
            note_axes(body, operand, model)
            body.whole.models.setdefault(model.name, model)
            return operand
        case NamedFunction(definition=function, defaults=defaults):
            kind = FunctionCall(function.name)
            made = Callee(function.name, function.signature, defaults, kind)
            operand = _lower(body, call, made, names)
            body.whole.functions.setdefault(function.name, function)
            return operand
        case Routine():
            return _inline(body, call, entity)
        case Mistaken():
            pass
        case None:
            body.problems.error(
                "HR101",
                f"there is no function, model or op `{name.text}`",
                name.span,
                help=_elsewhere(body, name.text) or did_you_mean(name.text, candidates),
            )
        case _:
            message = f"`{name.text}` is {describe(entity)} and cannot be called"
            body.problems.error("HR115", message, name.span)
    return _arguments_only(body, call)


def _elsewhere(body: Body, name: str) -> str | None:
    """Say which module has an op that was called without it, or what NumPy's is called here."""
    if name in FAMILIAR:
        return f"write `{FAMILIAR[name]}`"
    if name in SCALARS:
        return f"write `cast(x, {name})`"
    return did_mean(_full_name(body, name))


def _unknown_module(body: Body, call: ast.Call, module: ast.Name, name: str) -> Operand:
    known = body.catalog.family(module.text)
    if known is not None and any(
        isinstance(one, Mistaken) and nearest(name, body.catalog.families) == module.text
        for name, one in body.file.entities.items()
    ):
        return _arguments_only(body, call)  # its `use` is misspelt, which is said there
    if known is not None:
        message = f"`{module.text}` is not used in this file"
        help = f"add `use {module.text}` at the top"
    else:
        message = f"there is no value or module `{module.text}`"
        used = [
            n for n, one in body.file.entities.items() if isinstance(one, UsedFamily | UsedFile)
        ]
        meant = nearest(module.text, (*body.scope.names, *used, *body.catalog.families))
        if meant is not None:
            body.scope.find(meant)  # it is used, but for the mistake
        family = body.catalog.family(meant) if meant is not None else None
        if meant is None or (family is not None and name not in family.ops):
            meant = _full_name(body, name) or meant  # `np.mean`
        help = did_mean(meant)
    body.problems.error("HR101", message, module.span, help=help)
    return _arguments_only(body, call)


def _is_module(body: Body, name: str) -> bool:
    return isinstance(body.file.entities.get(name), UsedFamily | UsedFile)


def _hidden_module(body: Body, call: ast.Call, module: ast.Name, local: Local) -> Operand:
    body.file.find(module.text)  # it is used, but for the mistake
    body.problems.error(
        "HR115",
        f"`{module.text}` is a value here and hides the module of that name",
        module.span,
        secondary=(Label(local.span, f"`{module.text}` is given here"),),
        help="give the value another name",
    )
    return _arguments_only(body, call)


def _arguments_only(body: Body, call: ast.Call) -> Operand:
    """Look for mistakes in the arguments of a call that means nothing."""
    for argument in call.arguments:
        body.evaluate(argument.value)
    return BROKEN


def _lower(body: Body, call: ast.Call, callee: Callee, names: tuple[str, ...]) -> Operand:
    fields = callee.signature.results
    given = Given(body, call, callee)
    if not given.sound:
        return record([field.name for field in fields], [BROKEN] * len(fields))
    assert callee.kind is not None
    types = tuple(body.settle(type) for type in given.results)
    checks = (*given.checks(), *body.take_checks())
    inputs = given.values()
    results = [field.name for field in fields]
    outputs = body.add(
        callee.kind,
        inputs,
        types,
        call.span,
        callee.name,
        output_names(callee.name, results, names),
        checks=checks,
    )
    return record(results, tuple(map(Made, outputs)))


def _inline(body: Body, call: ast.Call, routine: Routine) -> Operand:
    callee = Callee(routine.name, routine.signature, routine.defaults, None)
    given = Given(body, call, callee)
    fields = routine.signature.results
    if not given.sound:
        return record([field.name for field in fields], [BROKEN] * len(fields))
    return body.inline_with(body, routine, given.singles, call.span)
