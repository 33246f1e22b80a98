"""Extension: requests that belong to a sequence, whose pipeline keeps state from one to the next.

`sequence_id` is a number from 1 or a text; 0 and the empty text mean none, as they always have.
`sequence_start` marks the first request of a sequence, `sequence_end` the last.
"""

from ...request import InSequence, RequestError
from ..names import shown
from ..parameters import Parameters, boolean

NAMES = ("sequence", "sequence(string_id)")

_MOST = (1 << 64) - 1
_LONGEST = 128  # characters of a text


def read_sequence(parameters: Parameters) -> InSequence | None:
    """Read the three parameters; None when there is no id."""
    start = boolean(parameters.get("sequence_start", False), "sequence_start")
    end = boolean(parameters.get("sequence_end", False), "sequence_end")
    key = parameters.get("sequence_id", 0)
    if isinstance(key, bool | float) or (isinstance(key, int) and not 0 <= key <= _MOST):
        raise RequestError(
            f"parameter `sequence_id` must be a whole number up to {_MOST}, or a text, got "
            f"{shown(str(key))}"
        )
    if isinstance(key, str) and len(key) > _LONGEST:
        raise RequestError(f"parameter `sequence_id` is longer than {_LONGEST} characters")
    if not key:
        if start or end:
            raise RequestError("a request of a sequence must have a sequence_id other than 0")
        return None
    return InSequence(key, start, end, remote=True)


def named(sequence: InSequence) -> dict[str, bool | int | str]:
    """Return the parameters that say of a request what `sequence` does."""
    return {
        "sequence_id": sequence.id,
        "sequence_start": sequence.start,
        "sequence_end": sequence.end,
    }
