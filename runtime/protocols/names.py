"""Names that come from outside: the one rule for them, and how an error shows one."""

import re

_NAME = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_\-.]{0,127}", re.ASCII)
_SHOWN = 64


def is_name(text: str) -> bool:
    """Whether a model, version or tensor may be called this.

    Letters, digits, `_`, `-` and `.`, at most 128, the first no dot. A name that passes holds no
    path separator, no control character and nothing that a log line could be forged with.
    """
    return _NAME.fullmatch(text) is not None


def shown(text: str) -> str:
    """A foreign name as an error may show it: quoted, escaped and short."""
    cut = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return ascii(cut)
