"""How many cells of a terminal text takes."""

import unicodedata

TAB = 4
"""Cells of a tab, wherever it stands."""

_JOINERS = "\u200b\u200c\u200d\ufe0f"


def cells(text: str) -> int:
    """Return the width of a text that holds no line end."""
    return len(text) if text.isascii() and "\t" not in text else sum(map(_cells, text))


def _cells(char: str) -> int:
    if char == "\t":
        return TAB
    if unicodedata.combining(char) or char in _JOINERS:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
