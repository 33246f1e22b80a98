"""Rows: what is written one below the other, with the comments and blank lines between.

A comment on the line where a row ends stays at the end of that row. One on a line of its own
stays above what follows it. One in the middle of something goes above the row that holds it.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from .ast import Comment, Node
from .layout import (
    HARD,
    SOFT,
    Doc,
    Hard,
    IfBroken,
    Line,
    Suffix,
    fill,
    group,
    indent,
    join,
    separated,
)
from .source import Source


@dataclass(frozen=True, slots=True)
class Row:
    """`blank`: an empty line goes before it. `suffix`: a comment at its end, "" for none."""

    doc: Doc
    blank: bool = False
    suffix: str = ""
    comment: bool = False


Element: TypeAlias = tuple[Node, Callable[[], Doc]]


@dataclass(frozen=True, slots=True)
class Rows:
    """`heading` is a comment on the line of the opening bracket, "" for none."""

    rows: tuple[Row, ...]
    heading: str = ""

    @property
    def commented(self) -> bool:
        return bool(self.heading) or any(row.comment or row.suffix for row in self.rows)


class Comments:
    """The comments of a module that are not placed yet."""

    def __init__(self, source: Source, comments: Sequence[Comment]) -> None:
        self.source = source
        self.left = sorted(comments, key=lambda comment: comment.span.start)

    def _take(self, start: int, end: int) -> list[Comment]:
        low = bisect_left(self.left, start, key=lambda comment: comment.span.start)
        high = bisect_left(self.left, end, key=lambda comment: comment.span.start)
        taken = self.left[low:high]
        del self.left[low:high]
        return taken

    def find(self, bracket: str, start: int) -> int:
        """Return the offset of the first such bracket after `start` that is in no comment."""
        text = self.source.text
        while (found := text.find(bracket, start)) >= 0:
            comment = text.find("#", start, found)
            if comment < 0:
                return found
            start = text.find("\n", comment)
        return start  # only in a tree that was not parsed

    def rows(self, elements: Sequence[Element], start: int | None, end: int) -> Rows:
        """Return the rows of elements between the offsets of an opening and a closing bracket.

        `start` is None for a whole file.
        """
        gathered = _Gathered(self.source, start or 0, start is not None)
        for node, build in elements:
            doc = build()
            inside = self._take(node.span.start, node.span.end)
            for comment in self._take(gathered.previous, node.span.start):
                gathered.add_comment(comment)
            gathered.add_element(node, doc, inside)
        for comment in self._take(gathered.previous, end):
            gathered.add_comment(comment)
        return Rows(tuple(gathered.rows), gathered.heading)


class _Gathered:
    """Rows so far; `previous` is the offset where the last one ends in the source."""

    def __init__(self, source: Source, previous: int, bracket: bool) -> None:
        self.source, self.previous, self.bracket = source, previous, bracket
        self.rows: list[Row] = []
        self.heading = ""

    def add_comment(self, comment: Comment) -> None:
        same_line = self._line_ends(comment) == 0
        last = self.rows[-1] if self.rows else None
        if same_line and last is not None and not last.suffix and not last.comment:
            self.rows[-1] = replace(last, suffix=comment.text)
        elif same_line and last is None and self.bracket and not self.heading:
            self.heading = comment.text
        else:
            self.rows.append(Row(comment.text, self._blank(comment), comment=True))
        self.previous = comment.span.end

    def add_element(self, node: Node, doc: Doc, inside: Sequence[Comment]) -> None:
        blank = self._blank(node)
        for comment in inside:
            self.rows.append(Row(comment.text, blank, comment=True))
            blank = False
        self.rows.append(Row(doc, blank))
        self.previous = node.span.end

    def _blank(self, node: Node) -> bool:
        return bool(self.rows) and self._line_ends(node) > 1

    def _line_ends(self, node: Node) -> int:
        return self.source.text.count("\n", self.previous, node.span.start)


def stacked(rows: Sequence[Row]) -> Doc:
    """Return rows below one another."""
    parts: list[Doc] = []
    for i, row in enumerate(rows):
        if i:
            parts.append(Hard(2) if row.blank else HARD)
        parts.append(row.doc)
        if row.suffix:
            parts.append(Suffix(row.suffix))
    return join(*parts)


def braced(rows: Rows, separator: str, inline: bool) -> Doc:
    """Return rows in braces; on one line, with the separator, when `inline` and they fit."""
    if not rows.rows and not rows.heading:
        return "{ }"
    heading = [Suffix(rows.heading)] if rows.heading else []
    if inline and not rows.commented:
        docs = [row.doc for row in rows.rows]
        between = separated((IfBroken("", separator), Line()), docs)
        return group("{", indent(Line(), between), Line(), "}")
    return join("{", *heading, indent(HARD, stacked(rows.rows)), HARD, "}")


def bracketed(opening: str, rows: Rows, closing: str, wrap: bool = False) -> Doc:
    """Return a list with commas; broken it has one row a line, or lines filled up (`wrap`)."""
    if not rows.commented:
        docs = [row.doc for row in rows.rows]
        if not docs:
            return opening + closing
        if wrap:
            rest = [part for doc in docs[1:] for part in (",", fill(doc))]
            return group(opening, indent(SOFT, docs[0], *rest, IfBroken(",")), SOFT, closing)
        content = separated((",", Line()), docs)
        return group(opening, indent(SOFT, content, IfBroken(",")), SOFT, closing)
    heading = [Suffix(rows.heading)] if rows.heading else []
    lines = [row if row.comment else replace(row, doc=join(row.doc, ",")) for row in rows.rows]
    return join(opening, *heading, indent(HARD, stacked(lines)), HARD, closing)
