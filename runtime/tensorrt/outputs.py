"""A result whose size only the run tells, such as what a threshold lets through.

It gets memory for the largest that it may be, before the run; the library asks for it, and then
says the shape. No exception may get out of what it calls, so one that does not fit is told by the
address 0, which fails the run.
"""

from typing import Any

from .package import Package


# Any: a class of an untyped module
def output_allocator(package: Package, address: int, capacity: int) -> Any:
    """Return an allocator of one output; its `shape` is there when the run was asked for."""
    module = package.module

    class OutputAllocator(module.IOutputAllocator):
        def __init__(self) -> None:
            module.IOutputAllocator.__init__(self)
            self.shape: tuple[int, ...] | None = None

        def reallocate_output(self, _name: str, _memory: int, size: int, _alignment: int) -> int:
            return address if size <= capacity else 0

        def reallocate_output_async(
            self, name: str, memory: int, size: int, alignment: int, _stream: int
        ) -> int:
            return self.reallocate_output(name, memory, size, alignment)

        def notify_shape(self, _name: str, shape: Any) -> None:
            self.shape = tuple(shape)

    return OutputAllocator()
