"""Names of the language as names of Python."""

import keyword
from collections.abc import Iterable

USED = frozenset(
    (
        *("Any", "Iterator", "NDArray", "NamedTuple", "Sequence", "np", "stubs"),
        *("bool", "bytes", "bytearray", "float", "int", "list", "memoryview", "str"),
    )
)
"""What annotations in a class refer to, and so nothing else in it may be called."""

OF_TUPLES = frozenset(("count", "index"))


def python_names(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return for each name one that Python allows and that is neither taken nor used twice: itself
    where it can be, else with `_` behind it."""
    names, found, used = tuple(names), dict[str, str](), {*taken}
    for name in sorted(names, key=lambda one: (not _is_good(one), names.index(one))):
        made = name if _is_good(name) else _mended(name)
        while made in used:
            made += "_"
        found[name] = made
        used.add(made)
    return {name: found[name] for name in names}


def _mended(name: str) -> str:
    """Return a name for one that starts with `_` (`_x`, `_1`, `__`) or is a word of Python's."""
    bare = name.strip("_")
    return f"{bare}_" if bare.isidentifier() else f"value_{bare}"


def class_name(name: str, suffix: str, taken: set[str]) -> str:
    """Return a name for a class, as `OcrAnswer` of `ocr`, and take it."""
    words = "".join(one if one.isalnum() and one.isascii() else " " for one in name).split()
    made = "".join(word[0].upper() + word[1:] for word in words)
    made = made if made[:1].isalpha() else f"The{made}"
    made = made if made.endswith(suffix) else made + suffix
    while made in taken:
        made += "_"
    taken.add(made)
    return made


def _is_good(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
