"""Documents that lay themselves out: groups stay on one line when they fit, else they break.

After Wadler, "A prettier printer" (2003), in the iterative form that other formatters use. A group
is tried flat; when it does not fit, its own `Line`s become line ends and the groups inside it are
tried in turn. A `Hard` line end inside a group breaks the group.
"""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Join:
    parts: tuple["Doc", ...]
    forced: bool


@dataclass(frozen=True, slots=True)
class Line:
    """`flat` when its group is on one line, else a line end."""

    flat: str = " "


@dataclass(frozen=True, slots=True)
class Hard:
    """A line end; two for a blank line."""

    count: int = 1


@dataclass(frozen=True, slots=True)
class Indent:
    content: "Doc"
    forced: bool


@dataclass(frozen=True, slots=True)
class Group:
    content: "Doc"
    forced: bool


@dataclass(frozen=True, slots=True)
class Fill:
    """A space and `content` when that still fits on the line, else `content` on a new line."""

    content: "Doc"
    forced: bool


@dataclass(frozen=True, slots=True)
class IfBroken:
    """`broken` when the group around it is broken, else `flat`."""

    broken: str
    flat: str = ""


@dataclass(frozen=True, slots=True)
class Suffix:
    """A comment: printed at the end of the line, whatever else comes on it."""

    text: str


Doc: TypeAlias = str | Join | Line | Hard | Indent | Group | Fill | IfBroken | Suffix
LINE, SOFT, HARD = Line(), Line(""), Hard()
INDENT = 4


def _forced(doc: Doc) -> bool:
    match doc:
        case str() | Line() | IfBroken():
            return False
        case Hard() | Suffix():
            return True
        case Join() | Indent() | Group() | Fill():
            return doc.forced


def join(*parts: Doc) -> Join:
    return Join(parts, any(_forced(part) for part in parts))


def indent(*parts: Doc) -> Indent:
    content = join(*parts)
    return Indent(content, content.forced)


def group(*parts: Doc) -> Group:
    content = join(*parts)
    return Group(content, content.forced)


def fill(*parts: Doc) -> Fill:
    content = join(*parts)
    return Fill(content, content.forced)


def separated(separator: tuple[Doc, ...], docs: list[Doc]) -> Join:
    parts: list[Doc] = []
    for i, doc in enumerate(docs):
        parts += [*separator, doc] if i else [doc]
    return join(*parts)


_Command: TypeAlias = tuple[int, bool, Doc]  # indentation, broken, document


def lay_out(doc: Doc, width: int) -> str:
    """Return the text of a document, its lines at most `width` characters where that can be."""
    out: list[str] = []
    suffixes: list[str] = []
    column = 0
    stack: list[_Command] = [(0, True, doc)]
    while stack:
        depth, broken, item = stack.pop()
        match item:
            case str():
                out.append(item)
                column += len(item)
            case Join():
                stack.extend((depth, broken, part) for part in reversed(item.parts))
            case Indent():
                stack.append((depth + INDENT, broken, item.content))
            case Group():
                flat = not item.forced and _fits(width - column, item.content, stack)
                stack.append((depth, not flat, item.content))
            case Fill():
                room = width - column - len(" ,")
                stays = not broken or (not item.forced and _fits(room, item.content, []))
                stack.append((depth, broken and not stays, item.content))
                stack.append((depth, not stays, LINE))
            case IfBroken():
                text = item.broken if broken else item.flat
                out.append(text)
                column += len(text)
            case Suffix():
                suffixes.append(f"  {item.text}")
            case Line(flat=flat) if not broken:
                out.append(flat)
                column += len(flat)
            case Line() | Hard():
                out += suffixes
                suffixes.clear()
                count = item.count if isinstance(item, Hard) else 1
                out.append("\n" * count + " " * depth)
                column = depth
    out += suffixes
    return "".join(out)


def _fits(room: int, content: Doc, rest: list[_Command]) -> bool:
    """Whether `content` on one line, with what follows up to the next line end, fits."""
    stack: list[tuple[bool, Doc]] = [(False, content)]
    below = len(rest)
    while room >= 0:
        if not stack:
            if below == 0:
                return True
            below -= 1
            _, broken, item = rest[below]
        else:
            broken, item = stack.pop()
        match item:
            case str():
                room -= len(item)
            case Join():
                stack.extend((broken, part) for part in reversed(item.parts))
            case Indent():
                stack.append((broken, item.content))
            case Group():
                stack.append((broken and item.forced, item.content))
            case Fill():
                if broken:
                    return True
                stack += [(False, item.content), (False, LINE)]
            case IfBroken():
                room -= len(item.broken if broken else item.flat)
            case Suffix():
                pass
            case Line(flat=flat) if not broken:
                room -= len(flat)
            case Line() | Hard():
                return True
    return False
