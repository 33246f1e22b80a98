"""A script as statements of a pipeline: what `execute` does with a request, and what it gives."""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass

from ...subject import Subject
from ..described import as_json
from ..draft import Draft
from ..tensors import tensor
from .asking import Asker
from .reader import Reader
from .statements import run
from .tree import imported
from .values import (
    ITSELF,
    REQUEST,
    Array,
    Defined,
    Kept,
    Known,
    Listed,
    NeedsWhole,
    Opaque,
    Response,
    Value,
    fixed,
)

_MODEL = "TritonPythonModel"


@dataclass(frozen=True, slots=True)
class Followed:
    """What was written: the expressions of outputs, and a stage that each request runs."""

    made: dict[str, str]
    always: str


def asks(source: str) -> bool:
    """Whether a file asks other models at all."""
    return "InferenceRequest(" in source and "exec(" in source


def follow(draft: Draft, subject: Subject, source: str, inside: dict[str, str]) -> Followed:
    """Write what a script does into a draft; raises Kept, and NeedsWhole where it looks into
    tensors that have rows."""
    if subject.config.model_transaction_policy.decoupled:
        raise Kept(None, "it answers any number of times")
    if subject.config.HasField("sequence_batching"):
        raise Kept(None, "it has sequences")
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise Kept(None, f"line {error.lineno} cannot be read: {error.msg}") from None
    reader = Reader(Asker(draft, subject, draft.whole, inside), _parts(tree), _methods(tree), run)
    reader.attributes.update(_attributes(reader, subject))
    execute = reader.methods.get("execute")
    if execute is None:
        raise Kept(None, "there is no `execute`")
    requests = Listed([REQUEST], each=True)
    try:
        given = reader.call(execute, Defined(execute, ITSELF), [requests])
    except RecursionError:
        raise Kept(execute, "it is deeper than is read") from None
    match given:
        case Listed([Response(tensors, False)], True):
            found = {one.name: one.array for one in tensors}
        case _:
            raise Kept(execute, "it does not give one response for each request")
    if not reader.asker.asked:
        raise Kept(execute, "it asks no other model")
    wanted = [one.name for one in subject.config.output]
    for name in wanted:
        if name not in found:
            raise Kept(execute, f"it does not give `{name}`")
    _hold(subject, execute, found, whole=draft.whole)
    return Followed({name: found[name].code for name in wanted}, reader.asker.always)


def _hold(subject: Subject, node: ast.AST, found: Mapping[str, Array], *, whole: bool) -> None:
    """Hold what is given to the types that are configured."""
    for one in map(tensor, subject.config.output):
        array = found[one.name]
        front = int(whole and subject.config.max_batch_size > 0)
        if array.dtype != one.dtype or len(array.dims) != len(one.dims) + front:
            said = f"{array.dtype}{list(array.dims)}"
            raise Kept(node, f"it gives `{one.name}` as {said}, not as configured")


def _model(tree: ast.Module) -> ast.ClassDef:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == _MODEL:
            return node
    raise Kept(None, f"there is no class `{_MODEL}`")


def _methods(tree: ast.Module) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    return {
        one.name: one
        for one in _model(tree).body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _parts(tree: ast.Module) -> dict[str, Value]:
    """Return what a file defines: modules, functions, constants."""
    parts: dict[str, Value] = {}
    for node in tree.body:
        match node:
            case ast.Import() | ast.ImportFrom():
                parts |= imported(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                parts[node.name] = Defined(node)
            case ast.Assign([ast.Name(name)], value):
                parts[name] = _constant(value)
            case _:
                pass
    return parts


def _constant(node: ast.expr) -> Value:
    if isinstance(node, ast.Constant):
        return Known(node.value)
    return Opaque(f"`{ast.unparse(node)}` is not known beforehand")


def _attributes(reader: Reader, subject: Subject) -> dict[str, Value]:
    """Return what `initialize` leaves in `self`, as far as it is known; the rest is opaque."""
    initialize = reader.methods.get("initialize")
    if initialize is None:
        return {}
    told = {
        "model_config": json.dumps(as_json(subject.config)),
        "model_name": subject.name,
    }
    names = [one.arg for one in initialize.args.args]
    reader.frames.append(dict(zip(names, (ITSELF, Known(told)), strict=False)))
    found: dict[str, Value] = {}
    for node in initialize.body:
        _initialized(reader, node, found)
        reader.attributes.update(found)
    reader.frames.pop()
    stored = [
        one.attr
        for method in reader.methods.values()
        for one in ast.walk(method)
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
    ]
    once = {name for name in stored if stored.count(name) == 1}
    return {
        name: fixed(value) if name in once else Opaque(f"`self.{name}` is given several values")
        for name, value in found.items()
    }


def _initialized(reader: Reader, node: ast.stmt, found: dict[str, Value]) -> None:
    """Follow one statement of `initialize`; whatever it may have changed is opaque where that is
    not plain."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    target = targets[0] if len(targets) == 1 else None
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        target = node.target
    value: Value = Opaque("it is not known beforehand")
    if target is not None and isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
        try:
            value = reader.value(node.value)
        except (Kept, NeedsWhole) as error:
            value = Opaque(str(error) or "it is not known beforehand")
    match target:
        case ast.Name(name):
            reader.frames[-1][name] = value
        case ast.Attribute(ast.Name("self"), name):
            found[name] = value
        case _:
            for one in ast.walk(node):
                match one:
                    case ast.Attribute(ast.Name("self"), name):
                        found[name] = Opaque(f"`self.{name}` is not known beforehand")
                    case ast.Name(name) if name in reader.frames[-1] and name != "self":
                        reader.frames[-1][name] = Opaque(f"`{name}` is not known beforehand")
                    case _:
                        pass
