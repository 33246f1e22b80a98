"""Memory that clients share with the server: regions of /dev/shm, each under a client's name.

A region is read and written by its descriptor and never mapped: a client that makes its file
shorter meanwhile gets an error, where a mapping would end the process. What is read is a copy, so
that nothing changes between being checked and being used.

registered ─▶ in use n times ─▶ unregistered: no new use ─▶ the last use ends ─▶ closed
"""

import os
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from .protocols.names import is_name, shown
from .protocols.raw import Buffer
from .request import Code, Fault, RequestError

_FOLDER = "/dev/shm"
_RESERVED = ("headrace", "triton_python_backend_shm", "sem.")
_MOST_BYTES: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RegionsConfig:
    """Only files of /dev/shm whose names begin with `prefix` can be registered. At most `most`
    regions, of at most `size` bytes each."""

    prefix: str = ""
    most: int = 256
    size: int = 1 << 32


class Region(NamedTuple):
    """What was registered. `offset` and `size` are in bytes."""

    name: str
    key: str
    offset: int
    size: int


class Place(NamedTuple):
    """Bytes of a region, as a request speaks of them."""

    region: str
    offset: int
    size: int


class _Open:
    """A region with its descriptor, and how many use it."""

    __slots__ = ("descriptor", "gone", "owner", "region", "uses")

    def __init__(self, region: Region, owner: str, descriptor: int) -> None:
        self.region, self.owner, self.descriptor = region, owner, descriptor
        self.uses, self.gone = 0, False


class Regions:
    """The regions registered. `owner` is the caller's name: to others a region does not exist."""

    def __init__(self, config: RegionsConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._open: dict[str, _Open] = {}

    def register(self, name: str, key: str, offset: int, size: int, owner: str) -> None:
        """Open a region; raises RequestError when it cannot be had."""
        if not is_name(name):
            raise RequestError(f"{shown(name)} is no region's name")
        file = key.removeprefix("/")
        allowed = file.startswith(self._config.prefix) and not file.startswith(_RESERVED)
        if not is_name(file) or not allowed:
            raise RequestError(f"the key of region '{name}' is none that may be registered")
        if not 0 < size <= self._config.size or offset > _MOST_BYTES - size:
            raise RequestError(f"region '{name}' cannot have {size} bytes from {offset}")
        descriptor = _open(name, file)
        try:
            _check_length(name, descriptor, offset + size)
            with self._lock:
                if name in self._open:
                    raise RequestError(f"region '{name}' is registered already")
                if len(self._open) >= self._config.most:
                    raise Fault(Code.OVERLOADED, f"{self._config.most} regions are registered")
                region = Region(name, key, offset, size)
                self._open[name] = _Open(region, owner, descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def unregister(self, name: str, owner: str) -> None:
        """Forget a region; without a name all of the owner's. One that is not there is none less:
        clients unregister before they register."""
        with self._lock:
            going = [
                one
                for one in self._open.values()
                if one.owner == owner and name in ("", one.region.name)
            ]
            for one in going:
                del self._open[one.region.name]
                one.gone = True
            idle = [one for one in going if not one.uses]
        for one in idle:
            os.close(one.descriptor)

    def status(self, name: str, owner: str) -> tuple[Region, ...]:
        """Return an owner's regions, or the one of that name; RequestError when there is none."""
        with self._lock:
            own = [one.region for one in self._open.values() if one.owner == owner]
        found = tuple(one for one in own if name in ("", one.name))
        if name and not found:
            raise _unknown(name)
        return found

    def lend(self, owner: str, most: int) -> "Lent":
        """Return an owner's regions for one request, which may read `most` bytes of them."""
        return Lent(self, owner, most)

    def close(self) -> None:
        """Forget all of them."""
        with self._lock:
            owners = {one.owner for one in self._open.values()}
        for owner in owners:
            self.unregister("", owner)

    @contextmanager
    def using(
        self, name: str, offset: int, size: int, owner: str
    ) -> Generator[tuple[int, int], None, None]:
        """Keep a region open meanwhile; gives its descriptor and where in it the bytes are."""
        with self._lock:
            one = self._open.get(name)
            if one is None or one.owner != owner:
                raise _unknown(name)
            one.uses += 1
        try:
            if offset > one.region.size or size > one.region.size - offset:
                raise RequestError(
                    f"{size} bytes from {offset} are not within the {one.region.size} bytes of "
                    f"region '{name}'"
                )
            start = one.region.offset + offset
            _check_length(name, one.descriptor, start + size)
            yield one.descriptor, start
        finally:
            with self._lock:
                one.uses -= 1
                last = one.gone and not one.uses
            if last:
                os.close(one.descriptor)

    def read(self, name: str, offset: int, size: int, owner: str) -> bytes:
        """Return a copy of bytes of a region."""
        with self.using(name, offset, size, owner) as (descriptor, start):
            content = os.pread(descriptor, size, start)
            if len(content) == size:
                return content
            parts = bytearray(content)  # the system gives at most 2 GiB at a time
            while len(parts) < size:
                part = os.pread(descriptor, size - len(parts), start + len(parts))
                if not part:
                    raise RequestError(f"region '{name}' has become shorter")
                parts += part
            return bytes(parts)

    def write(self, name: str, offset: int, content: Buffer, owner: str) -> None:
        """Put bytes into a region."""
        with self.using(name, offset, len(content), owner) as (descriptor, start):
            view = memoryview(content)
            while len(view):
                written = os.pwrite(descriptor, view, start)
                view, start = view[written:], start + written


class Lent:
    """The regions that one request may use."""

    __slots__ = ("_left", "_most", "_owner", "_regions")

    def __init__(self, regions: Regions, owner: str, most: int) -> None:
        self._regions, self._owner, self._most, self._left = regions, owner, most, most

    def read(self, place: Place) -> bytes:
        """Return a copy of what lies there; raises RequestError."""
        region, offset, size = place
        if size > self._left:
            raise RequestError(f"the inputs in shared memory have more than {self._most} bytes")
        self._left -= size
        return self._regions.read(region, offset, size, self._owner)

    def write(self, place: Place, content: Buffer) -> None:
        """Put an output there; raises RequestError when there is no room."""
        region, offset, size = place
        if len(content) > size:
            raise RequestError(
                f"the output has {len(content)} bytes, and {size} in region '{region}' to go to"
            )
        self._regions.write(region, offset, content, self._owner)


def _open(name: str, file: str) -> int:
    """Open a file beneath the folder of shared memory, and nothing that a link leads to."""
    folder = os.open(_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(file, flags, dir_fd=folder)
    except OSError:
        raise RequestError(f"the memory of region '{name}' cannot be opened") from None
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RequestError(f"the memory of region '{name}' cannot be opened")
    return descriptor


def _check_length(name: str, descriptor: int, end: int) -> None:
    if os.fstat(descriptor).st_size < end:
        raise RequestError(f"the memory of region '{name}' is shorter than that")


def _unknown(name: str) -> RequestError:
    return RequestError(f"there is no region {shown(name)}")
