"""What a launch is told of its arrays: sizes of loops, strides, and which entry does."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ...compiler.kernel_file import FLAT, STRIDED, Kernel


@dataclass(frozen=True, slots=True)
class Layout:
    """An array: its shape, the batch in front, and strides in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """`entry` with `numbers` behind the addresses of walks and results; `shape` is that of the
    results, the batch in front. Nothing is to be started for no elements."""

    entry: str
    numbers: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return self.numbers[0]


def contiguous(shape: Sequence[int]) -> Layout:
    """Return the layout of an array that lies row by row."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return Layout(tuple(shape), tuple(strides))


def plan_launch(kernel: Kernel, inputs: Sequence[Layout]) -> Launch:
    """Return how a kernel is started over inputs, the batch of each in front.

    Raises ValueError when their sizes do not go together.
    """
    sizes = [1] * (kernel.outer + kernel.inner)
    walked = [(inputs[walk.input], (0, *walk.loops)) for walk in kernel.walks]
    walked += [(contiguous((1, *table.shape)), (0, *table.loops)) for table in kernel.tables]
    for layout, loops in walked:
        if len(layout.shape) != len(loops):
            raise ValueError(f"an array of shape {list(layout.shape)} has {len(loops)} axes here")
        for size, loop in zip(layout.shape, loops, strict=True):
            if sizes[loop] == 1:
                sizes[loop] = size
            elif size not in (1, sizes[loop]):
                shapes = ", ".join(str(list(one.shape[1:])) for one in inputs)
                raise ValueError(f"arrays of shapes {shapes} do not go together")
    steps = [_steps(layout, loops, len(sizes)) for layout, loops in walked]
    shape = tuple(sizes[: kernel.outer])
    if FLAT in kernel.entries:
        wanted = contiguous(shape).strides
        if all(
            step == want or size == 1
            for one in steps
            for step, want, size in zip(one, wanted, shape, strict=True)
        ):
            return Launch(FLAT, (prod(shape),), shape)
    numbers = (prod(shape), *sizes, *(step for one in steps for step in one))
    return Launch(STRIDED, numbers, shape)


def _steps(layout: Layout, loops: Sequence[int], count: int) -> list[int]:
    steps = [0] * count
    for size, stride, loop in zip(layout.shape, layout.strides, loops, strict=True):
        if size != 1:
            steps[loop] = stride
    return steps
