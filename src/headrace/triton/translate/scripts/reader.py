"""The expressions of a script, and the functions that it calls, read for one request."""

import ast
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from .asking import Asker
from .calls import call_method, call_part, looked_into
from .expressions import compared, computed, element, joined, known, literal, minus, negated
from .tree import written
from .values import (
    Array,
    Defined,
    Itself,
    Kept,
    Known,
    Listed,
    Method,
    Opaque,
    Part,
    Value,
)
from .ways import Frames, Meeting

_DEEPEST: Final = 20  # calls within calls


class Way(Enum):
    """How a statement ends: in the next one, the next turn, behind the loop, in its caller."""

    ON = "on"
    TURN = "turn"
    OUT = "out"
    BACK = "back"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class End:
    way: Way
    value: Value | None = None


ON: Final = End(Way.ON)


@dataclass(slots=True)
class Reader:
    """`follow` walks statements, of which the second part is what follows them in the same body.
    `frames` are the names of each function that is being read, `parts` those of the file, and
    `attributes` those of `self`. `carried` are what a loop takes from turn to turn."""

    asker: Asker
    parts: dict[str, Value]
    methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef]
    follow: Callable[["Reader", Sequence[ast.stmt], Sequence[ast.stmt]], End]
    attributes: dict[str, Value] = field(default_factory=dict[str, Value])
    frames: Frames = field(default_factory=list[dict[str, Value]])
    carried: frozenset[str] = frozenset()
    requests: int = 0  # loops over requests around what is read
    loops: int = 0  # loops around it whose turns are not written one by one
    in_loop: bool = False
    turning: bool = False  # the innermost is one of these

    @property
    def names(self) -> dict[str, Value]:
        """The names of the function that is being read."""
        return self.frames[-1]

    def call(self, node: ast.AST, function: Defined, given: Sequence[Value]) -> Value:
        """Return what a function of the script gives, which is read in the place of its call."""
        if len(self.frames) > _DEEPEST:
            raise Kept(node, f"`{function.node.name}` calls itself")
        if any(written(one) != "staticmethod" for one in function.node.decorator_list):
            raise Kept(node, f"`{function.node.name}` is decorated")
        signature = function.node.args
        names = [one.arg for one in (*signature.posonlyargs, *signature.args)]
        given = [function.own, *given] if function.own is not None else [*given]
        if len(given) != len(names) or signature.vararg or signature.kwarg or signature.kwonlyargs:
            raise Kept(node, f"`{function.node.name}` is called in a way that is not known here")
        self.frames.append(dict(zip(names, given, strict=True)))
        around, self.in_loop, self.turning = (self.in_loop, self.turning), False, False
        end = self.follow(self, function.node.body, ())
        self.in_loop, self.turning = around
        self.frames.pop()
        match end:
            case End(Way.BACK, value) if value is not None:
                return value
            case End(Way.FAILED):
                raise Kept(node, f"`{function.node.name}` always fails")
            case _:
                return Known(None)

    def bind(self, target: ast.expr, value: Value) -> None:
        match target:
            case ast.Name(name):
                self.frames[-1][name] = value
            case ast.Tuple(targets) | ast.List(targets):
                if not isinstance(value, Listed) or value.each or len(value.items) != len(targets):
                    raise Kept(target, "what is taken apart is not known")
                for one, item in zip(targets, value.items, strict=True):
                    self.bind(one, item)
            case _:
                raise Kept(target, f"`{ast.unparse(target)}` is changed, which outlives a request")

    @contextmanager
    def aside(self, lines: list[str] | None = None) -> Generator[list[str]]:
        """Write lines elsewhere than where they would stand."""
        draft, written = self.asker.draft, [] if lines is None else lines
        outer, draft.lines = draft.lines, written
        self.asker.depth += 1
        try:
            yield written
        finally:
            draft.lines = outer
            self.asker.depth -= 1

    def value(self, node: ast.expr) -> Value:
        """Return what an expression gives."""
        match node:
            case ast.Constant(value):
                return Known(value)
            case ast.Name(name):
                return self.named(name)
            case ast.Attribute(owner, name):
                return self._member(self.value(owner), name)
            case ast.Await(value):
                return self.value(value)
            case ast.Call():
                return self._call(node)
            case ast.List(items) | ast.Tuple(items):
                return self._listed(items)
            case ast.Subscript(owner, place):
                return self._part(node, self.value(owner), place)
            case ast.Compare(left, [op], [right]):
                first, second = self.value(left), self.value(right)
                for one in (first, second):
                    if isinstance(one, Array):
                        looked_into(self.asker)
                return compared(node, op, first, second)
            case ast.BoolOp(op, values):
                return joined(node, op, [self.value(one) for one in values])
            case ast.UnaryOp(ast.Not(), operand):
                return negated(node, self.value(operand))
            case ast.UnaryOp(ast.USub(), operand):
                return minus(node, self.value(operand))
            case ast.BinOp(left, op, right):
                return computed(node, op, self.value(left), self.value(right))
            case ast.IfExp(test, body, orelse):
                return self._chosen(node, self.value(test), body, orelse)
            case ast.ListComp(_, [ast.comprehension(ifs=[])]):
                return self._comprehension(node)
            case ast.JoinedStr() | ast.Dict() | ast.Lambda() | ast.Set():
                return Opaque("a text or a table that is made here")
            case _:
                return Opaque(f"`{ast.unparse(node)}` has no translation")

    def named(self, name: str) -> Value:
        if name in self.frames[-1]:
            return self.frames[-1][name]
        return self.parts.get(name, Part(name))

    def _member(self, owner: Value, name: str) -> Value:
        match owner:
            case Itself() if name in self.attributes:
                return self.attributes[name]
            case Itself() if name in self.methods:
                method = self.methods[name]
                static = any(written(one) == "staticmethod" for one in method.decorator_list)
                return Defined(method, None if static else owner)
            case Itself():
                return Opaque(f"`self.{name}` is not known beforehand")
            case Part(whole):
                return Part(f"{whole}.{name}")
            case Opaque():
                return owner
            case Array(dims=dims) if name == "ndim":
                return Known(len(dims))
            case Array(code, _, dims) if name == "shape":
                looked_into(self.asker)
                return Listed(
                    [
                        Known(dim)
                        if dim >= 0
                        else Array(f"len({code})", "i64", ())
                        if not at
                        else Opaque("an open size")
                        for at, dim in enumerate(dims)
                    ]
                )
            case _:
                return Method(owner, name)

    def _call(self, node: ast.Call) -> Value:
        function = self.value(node.func)
        given = self._listed(node.args)
        named: dict[str, Value] = {}
        for one in node.keywords:
            if one.arg is None:
                raise Kept(node, "arguments from a table")
            named[one.arg] = self.value(one.value)
        if isinstance(function, Defined):
            return self.call(node, function, [*given.items, *self._in_order(node, function, named)])
        try:
            return self._outside(node, function, given, named)
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            raise Kept(node, f"`{ast.unparse(node.func)}` is not known here: {error}") from None

    def _outside(
        self, node: ast.Call, function: Value, given: Listed, named: dict[str, Value]
    ) -> Value:
        """Return what something gives that is not of the script."""
        match function:
            case Part(name):
                found = call_part(self.asker, node, name, given.items, named)
                if given.each and isinstance(found, Listed):
                    return Listed(found.items, each=True)
                return found
            case Method(owner, name):
                return call_method(self.asker, node, owner, name, given.items, named)
            case Opaque(reason):
                raise Kept(node, reason)
            case _:
                raise Kept(node, "what is called is no function")

    def _in_order(self, node: ast.Call, function: Defined, named: dict[str, Value]) -> list[Value]:
        """Return arguments by name in the place of those by position, and defaults of the rest."""
        signature = function.node.args
        names = [one.arg for one in (*signature.posonlyargs, *signature.args)]
        names = names[len(node.args) + (function.own is not None) :]
        defaults = signature.defaults[max(0, len(signature.defaults) - len(names)) :]
        known_ones = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        if set(named) - set(names):
            raise Kept(node, f"`{function.node.name}` is called in a way that is not known here")
        return [
            named[name] if name in named else _default(node, known_ones[name])
            for name in names
            if name in named or name in known_ones
        ]

    def _listed(self, items: Sequence[ast.expr]) -> Listed:
        found, each = list[Value](), False
        for one in items:
            value = self.value(one.value if isinstance(one, ast.Starred) else one)
            if isinstance(one, ast.Starred):
                if not isinstance(value, Listed):
                    raise Kept(one, "what is spread out is no list")
                found += value.items
                each = each or value.each
            else:
                found.append(value)
        return Listed(found, each)

    def _part(self, node: ast.Subscript, owner: Value, place: ast.expr) -> Value:
        match owner:
            case Array():
                looked_into(self.asker)
                inner = place.elts if isinstance(place, ast.Tuple) else [place]
                places = [self.value(one) for one in inner]
                numbers = [one.value for one in places if isinstance(one, Known)]
                if len(numbers) != len(places) or not all(type(one) is int for one in numbers):
                    raise Kept(node, f"`{ast.unparse(place)}` is no place of an element")
                return element(node, owner, numbers)
            case Listed(each=True):
                raise Kept(node, "one of several requests is picked")
            case Opaque():
                return owner
            case _:
                pass
        match owner, self.value(place):
            case Listed(items), Known(int() as at) if -len(items) <= at < len(items):
                return items[at]
            case Known(found), Known(key):
                try:
                    return known(found[key])
                except (KeyError, IndexError, TypeError):
                    return Opaque(f"`{ast.unparse(node)}` is not known beforehand")
            case _:
                return Opaque(f"`{ast.unparse(node)}` is not known beforehand")

    def _chosen(self, node: ast.expr, test: Value, body: ast.expr, orelse: ast.expr) -> Value:
        match test:
            case Known(found):
                return self.value(body if found else orelse)
            case Array(code, "bool", ()):
                with self.aside() as first:
                    one = self.value(body)
                with self.aside() as second:
                    other = self.value(orelse)
                one, other = _numbers(node, one, other)
                meeting = Meeting(self.asker.draft, code)
                value = meeting.value("value", one, other)
                meeting.write(first, second)
                return value
            case _:
                raise Kept(node, "a condition is not known")

    def _comprehension(self, node: ast.ListComp) -> Value:
        generator = node.generators[0]
        over = self.value(generator.iter)
        if isinstance(over, Known) and isinstance(over.value, list | tuple | range):
            over = known(list(over.value))
        if not isinstance(over, Listed):
            raise Kept(node, "what is listed is not known")
        self.requests += over.each
        self.frames.append(dict(self.frames[-1]))
        items: list[Value] = []
        for one in over.items:
            self.bind(generator.target, one)
            items.append(self.value(node.elt))
        self.frames.pop()
        self.requests -= over.each
        return Listed(items, over.each)


def _default(node: ast.AST, written: ast.expr) -> Value:
    if not isinstance(written, ast.Constant):
        raise Kept(node, "a default is computed")
    return Known(written.value)


def _numbers(node: ast.expr, one: Value, other: Value) -> tuple[Value, Value]:
    """Let a number meet an array as one of its type."""
    match one, other:
        case Array(), Known(found):
            return one, Array(literal(node, found, one.dtype), one.dtype, ())
        case Known(found), Array():
            return Array(literal(node, found, other.dtype), other.dtype, ()), other
        case _:
            return one, other
