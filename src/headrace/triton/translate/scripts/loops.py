"""Loops of a script: over all requests, over what is listed, and so many times."""

import ast
from collections.abc import Sequence
from typing import Final

from ..tensors import written
from .expressions import known
from .reader import ON, End, Reader, Way
from .tree import breaks, read_in, stored_in, target_of
from .values import Array, Kept, Known, Listed, Opaque, Tensor, Value
from .ways import copied

_MOST: Final = 64  # turns of a loop that are written one by one
BROKE: Final = "a loop was left"
"""Stands among the names of a loop that is written as one, for whether it is left."""


def walk_loop(reader: Reader, node: ast.For, after: list[ast.stmt]) -> End:
    """Walk a loop, behind which `after` follows."""
    around = reader.carried
    reader.carried = around | read_in(node.body) | read_in(after)
    end = _walk(reader, node, after)
    reader.carried = around
    return end


def _walk(reader: Reader, node: ast.For, after: list[ast.stmt]) -> End:
    over = reader.value(node.iter)
    match over:
        case Listed(items, True):
            return _each(reader, node, items, after)
        case Listed(items):
            return _turns(reader, node, items)
        case Known(range() as turns) if isinstance(node.target, ast.Name):
            if len(turns) > 1 and node.target.id not in read_in(node.body):
                return _loop(reader, node, len(turns))
            if len(turns) > _MOST:
                raise Kept(node, f"a loop of {len(turns)} turns that counts them")
            return _turns(reader, node, [Known(one) for one in turns])
        case Known(list() | tuple() | str() as values):
            return _turns(reader, node, [known(one) for one in values])
        case Opaque(reason):
            raise Kept(node, reason)
        case _:
            raise Kept(node, "what a loop goes through is not known")


def _turns(reader: Reader, node: ast.For, items: Sequence[Value]) -> End:
    """Walk the turns of a loop one by one."""
    for item in items:
        reader.bind(node.target, item)
        end = _turn(reader, node.body, turning=False)
        if end.way is Way.OUT:
            break
        if end.way in (Way.BACK, Way.FAILED):
            return end
    return ON


def _turn(reader: Reader, body: Sequence[ast.stmt], *, turning: bool) -> End:
    around = reader.in_loop, reader.turning
    reader.in_loop, reader.turning = True, turning
    end = reader.follow(reader, body, ())
    reader.in_loop, reader.turning = around
    return end


def _each(reader: Reader, node: ast.For, items: Sequence[Value], after: list[ast.stmt]) -> End:
    """Walk a loop over all requests, of which one is read: nothing goes to the next."""
    frame = reader.names
    stored, read = stored_in(node), read_in(node.body)
    for name in sorted(stored & frame.keys() & read):
        raise Kept(node, f"`{name}` goes from one request to the next")
    if reader.requests:
        raise Kept(node, "a loop over requests in another")
    for value in frame.values():
        if isinstance(value, Listed) and not value.items:
            value.each = True
    reader.requests += 1
    end = _turns(reader, node, items)
    reader.requests -= 1
    if end.way is not Way.ON or any(breaks(one) for one in node.body):
        raise Kept(node, "the loop over requests is left before its end")
    for name in stored & read_in(after):
        frame[name] = Opaque(f"`{name}` is of the last request")
    return ON


def _loop(reader: Reader, node: ast.For, turns: int) -> End:
    """Write a loop as one, with what it takes from turn to turn."""
    frame = reader.names
    names = sorted(name for name in stored_in(node) if name in frame and name != target_of(node))
    sizes = {name: _array_of(node, name, frame[name]).dims for name in names}
    for _ in range(3):
        again = _loop_with(reader, node, turns, names, sizes)
        if again is None:
            return ON
        sizes = again
    raise Kept(node, "sizes change from turn to turn")


def _loop_with(
    reader: Reader, node: ast.For, turns: int, names: list[str], sizes: dict[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]] | None:
    """Write a loop; return sizes that differ, and nothing is written then."""
    draft, start = reader.asker.draft, reader.frames
    taken, count = set(draft.names.taken), len(draft.items)
    reader.frames = copied(start)
    frame = reader.names
    before = {name: _array_of(node, name, frame[name]) for name in names}
    inside = {
        name: Array(draft.names.fresh(name), before[name].dtype, sizes[name]) for name in names
    }
    for name, array in inside.items():
        frame[name] = _with_array(frame[name], array)
    frame[BROKE] = Known(False)
    frame[target_of(node)] = Opaque("the number of a turn")
    reader.loops += 1
    with reader.aside() as lines:
        end = _turn(reader, node.body, turning=True)
    reader.loops -= 1
    if end.way in (Way.BACK, Way.FAILED, Way.OUT):
        raise Kept(node, "a loop that ends in its first turn")
    for name in names:
        _require_alike(node, name, start[-1][name], reader.names[name])
    after = {name: _array_of(node, name, reader.names[name]) for name in names}
    broke = reader.names[BROKE]
    reader.frames = start
    others = {
        name: one.dims
        for name, one in after.items()
        if one.dims != sizes[name] and len(one.dims) == len(sizes[name])
    }
    if others:
        draft.names.taken.clear()
        draft.names.taken.update(taken)
        del draft.items[count:]
        return sizes | {
            name: tuple(a if a == b else -1 for a, b in zip(dims, sizes[name], strict=True))
            for name, dims in others.items()
        }
    if not names:
        raise Kept(node, "a loop that leaves nothing")
    _write_loop(reader, node, turns, before, inside, after, lines, broke)
    return None


def _write_loop(
    reader: Reader,
    node: ast.For,
    turns: int,
    before: dict[str, Array],
    inside: dict[str, Array],
    after: dict[str, Array],
    lines: list[str],
    broke: Value,
) -> None:
    draft, frame = reader.asker.draft, reader.names
    carried = ", ".join(
        f"{one.code}: {written(one.dtype, one.dims)} = {before[name].code}"
        for name, one in inside.items()
    )
    left = {name: draft.names.fresh(name) for name in inside}
    following = ", ".join(f"{one.code} = {after[name].code}" for name, one in inside.items())
    ends = [f"next {following}"]
    if isinstance(broke, Array):
        ends.append(f"stop when {broke.code}")
    body = "\n".join([*lines, *ends])
    draft.lines.append(f"{', '.join(left.values())} = loop ({carried}) max {turns} {{\n{body}\n}}")
    for name in stored_in(node) - inside.keys():
        frame[name] = Opaque(f"`{name}` is made in a loop, and not there before it")
    for name, target in left.items():
        array = Array(target, inside[name].dtype, inside[name].dims)
        frame[name] = _with_array(frame[name], array)


def _require_alike(node: ast.AST, name: str, before: Value, after: Value) -> None:
    """Hold what goes from turn to turn to that it is the same kind of thing."""
    names = [one.name if isinstance(one, Tensor) else "" for one in (before, after)]
    if names[0] != names[1]:
        raise Kept(node, f"`{name}` is another tensor in the first turn than in those that follow")


def _array_of(node: ast.AST, name: str, value: Value) -> Array:
    match value:
        case Array():
            return value
        case Tensor(array=array):
            return array
        case Known(bool() as found):
            return Array(str(found).lower(), "bool", ())
        case Known(int() as found):
            return Array(str(found), "i64", ())
        case Known(float() as found):
            return Array(f"cast({found!r}, f64)", "f64", ())
        case Opaque(reason):
            raise Kept(node, reason)
        case _:
            raise Kept(node, f"`{name}` is no tensor, and goes from turn to turn")


def _with_array(value: Value, array: Array) -> Value:
    return Tensor(value.name, array) if isinstance(value, Tensor) else array
