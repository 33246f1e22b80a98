"""Which of the waiting rows fill the next batch: in their order, with no more padding than is
allowed."""

from collections.abc import Iterable


def gather(
    waiting: Iterable[tuple[int, int]], target: int, whole: int, waste: float | None
) -> list[tuple[int, int]]:
    """Return what is taken, as pairs of an index and a number of rows; the first always is.

    `waiting` holds pairs of a number of rows and their size. Those of up to `whole` rows are not
    cut. In a batch each row becomes as large as the largest: what would raise the share of that
    padding above `waste` waits for another batch, and what is behind it may go first.
    """
    taken: list[tuple[int, int]] = []
    filled = used = largest = 0
    for index, (count, size) in enumerate(waiting):
        if filled >= target:
            break
        rows = min(count, target - filled)
        if rows < count <= whole and filled:
            break
        most = max(largest, size)
        total = (filled + rows) * most
        if waste is not None and filled and total - used - rows * size > waste * total:
            continue
        taken.append((index, rows))
        filled, used, largest = filled + rows, used + rows * size, most
    return taken
