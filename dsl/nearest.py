"""The name that was probably meant, for "did you mean"."""

from collections.abc import Iterable


def nearest(name: str, candidates: Iterable[str], within: int = 2) -> str | None:
    """Return the candidate with the fewest edits from `name`, None when all need more than
    `within` or nothing of the name would be left; of equals the first in the alphabet."""
    near = {one for one in candidates if abs(len(one) - len(name)) <= within}
    ranked = sorted((_edits(name, candidate), candidate) for candidate in near)
    if not ranked or ranked[0][0] > min(within, len(name) - 1):
        return None
    return ranked[0][1]


def _edits(left: str, right: str) -> int:
    """Count insertions, deletions, replacements and swaps of neighbours (case is no edit)."""
    left, right = left.casefold(), right.casefold()
    before: list[int] = []
    row = [*range(len(right) + 1)]
    for i, char in enumerate(left, start=1):
        earlier, before, row = before, row, [i]
        for j, other in enumerate(right, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (char != other))
            if earlier and j > 1 and char == right[j - 2] and left[i - 2] == other:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]
