"""Room on the interpreter's stack for sources, graphs and plans that nest deeply.

What walks trees, graphs and plans recurses. Python stops at 1,000 frames by default, which is
enough for some 80 blocks within blocks; the 200 that are promised take 2,200 frames and 256 KiB
of stack at most. So the interpreter's limit is raised, once and only to `FRAMES`, when a source
or a plan turns out to be that deep, and never for others. It is not lowered again: another
thread may be on its way down. Deeper sources are refused with a place.
"""

import sys

MAX_BLOCKS = 200
"""Blocks within blocks (`if`, `match`, `for`, ... and returns after returns) of a pipeline."""

FRAMES = 6000
"""Nothing that walks a tree as high as `depth.MAX_HEIGHT` needs more than four frames a node."""


def allow_depth() -> bool:
    """Let the interpreter recurse `FRAMES` deep; False when it may already."""
    if sys.getrecursionlimit() >= FRAMES:
        return False
    sys.setrecursionlimit(FRAMES)
    return True
