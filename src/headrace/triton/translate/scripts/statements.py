"""The statements of a script, walked once for one request."""

import ast
from collections.abc import Sequence

from .expressions import computed
from .loops import BROKE, walk_loop
from .reader import ON, End, Reader, Way
from .tree import imported, is_log, read_in, require_failing
from .values import Array, Failed, Kept, Known, Listed, Opaque
from .ways import Frames, Meeting, copied


def run(reader: Reader, statements: Sequence[ast.stmt], rest: Sequence[ast.stmt] = ()) -> End:
    """Walk statements; `rest` are those that follow in the same body."""
    for at, node in enumerate(statements):
        end = _statement(reader, node, [*statements[at + 1 :], *rest])
        if end.way is not Way.ON:
            return end
    return ON


def _statement(reader: Reader, node: ast.stmt, after: list[ast.stmt]) -> End:
    match node:
        case ast.Expr(ast.Constant()) | ast.Pass():
            return ON
        case ast.Expr(ast.Call() as call) if is_log(call):
            return ON
        case ast.Expr(value):
            _effect(reader, value)
            return ON
        case ast.Assign([target], value) | ast.AnnAssign(target, value=ast.expr() as value):
            reader.bind(target, reader.value(value))
            return ON
        case ast.AugAssign(ast.Name(name) as target, op, value):
            before = reader.named(name)
            if not isinstance(before, Known) and not (
                isinstance(before, Array) and not before.dims
            ):
                raise Kept(node, f"`{name}` is changed in its place")
            reader.bind(target, computed(node, op, before, reader.value(value)))
            return ON
        case ast.Return(value):
            return End(Way.BACK, Known(None) if value is None else reader.value(value))
        case ast.Raise():
            return End(Way.FAILED)
        case ast.Continue():
            return End(Way.TURN)
        case ast.Break():
            return End(Way.OUT)
        case ast.If():
            return _if(reader, node, after)
        case ast.For(orelse=[]):
            return walk_loop(reader, node, after)
        case ast.Try(orelse=[], finalbody=[]):
            for handler in node.handlers:
                require_failing(handler, handler.body)
            return run(reader, node.body, after)
        case ast.Import() | ast.ImportFrom():
            reader.names.update(imported(node))
            return ON
        case ast.While():
            raise Kept(node, "a loop whose turns nothing bounds")
        case _:
            said = ast.unparse(node).partition("\n")[0]
            raise Kept(node, f"`{said}` has no translation")


def _effect(reader: Reader, node: ast.expr) -> None:
    match node:
        case ast.Call(ast.Attribute(ast.Name(name), "append"), [item]):
            listed = reader.names.get(name)
            if not isinstance(listed, Listed) or listed.fixed:
                raise Kept(node, f"`{name}` is changed, which may outlive a request")
            if listed.each and not reader.requests:
                raise Kept(node, f"`{name}` has an item for each request, and gets one more")
            if reader.loops:
                raise Kept(node, f"`{name}` grows in a loop")
            listed.items.append(reader.value(item))
        case _:
            reader.value(node)


def _if(reader: Reader, node: ast.If, after: list[ast.stmt]) -> End:
    match reader.value(node.test):
        case Failed(False):
            require_failing(node, node.body)
            return run(reader, node.orelse, after)
        case Failed(True):
            if node.orelse:
                require_failing(node, node.orelse)
            return run(reader, node.body, after)
        case Known(found):
            return run(reader, node.body if found else node.orelse, after)
        case Array(code, "bool", ()):
            return _either(reader, node, code, after)
        case Opaque(reason):
            raise Kept(node, reason)
        case _:
            raise Kept(node, "a condition is no `bool`")


def _either(reader: Reader, node: ast.If, condition: str, after: list[ast.stmt]) -> End:
    """Walk both ways, with what follows where they part for good, and join what they leave."""
    start = reader.frames
    ends: list[End] = []
    lines: list[list[str]] = []
    left: list[Frames] = []
    apart = False
    for body in (node.body, node.orelse):
        reader.frames = copied(start)
        with reader.aside() as written:
            ends.append(run(reader, body, after))
        lines.append(written)
        left.append(reader.frames)
    if {one.way for one in ends} != {Way.ON}:
        apart = True
        for number, end in enumerate(ends):
            if end.way is Way.ON:
                reader.frames = left[number]
                with reader.aside(lines[number]):
                    ends[number] = _last(reader, run(reader, after))
    reader.frames = start
    ends = [_broken(reader, one, frames) for one, frames in zip(ends, left, strict=True)]
    ways = {one.way for one in ends}
    if Way.FAILED in ways:
        raise Kept(node, "a condition decides whether a request fails")
    if len(ways) != 1:
        raise Kept(node, "a condition decides where it goes on")
    meeting = Meeting(reader.asker.draft, condition)
    value = None
    if ends[0].value is not None and ends[1].value is not None:
        value = meeting.value("value", ends[0].value, ends[1].value)
    live = reader.carried | {BROKE} | (frozenset() if apart else read_in(after))
    reader.frames = meeting.frames(left[0], left[1], frozenset(live))
    meeting.write(lines[0], lines[1])
    return End(ends[0].way, value)


def _last(reader: Reader, end: End) -> End:
    """Return how a body ends that has come to its end."""
    if end.way is not Way.ON:
        return end
    return End(Way.TURN) if reader.in_loop else End(Way.BACK, Known(None))


def _broken(reader: Reader, end: End, frames: Frames) -> End:
    """Note in a loop that is written as one whether a way leaves it."""
    if not reader.turning or end.way not in (Way.OUT, Way.TURN):
        return end
    frames[-1][BROKE] = Known(end.way is Way.OUT)
    return End(Way.TURN)
