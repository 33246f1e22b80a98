"""Engines on disk, each built once however many processes want it.

    <key>.engine        a line with the SHA-256 of all that follows, a line of the report, the bytes
    timings-<key>.cache what the builder has measured, of one library and GPU

A key is the SHA-256 of the model and of all that decides what is built: settings, sizes, the full
version of the library, and the GPU with its driver where the engine is for one alone. Who builds
holds the entry's lock, and the others wait and find it. An entry is written beside its place and
moved there; one that does not have its own hash is built again.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from ..devices.cuda_driver import Gpu
from ..shared_files import locked, write_whole
from .build import Built, Request
from .package import Package
from .report import Report

MAGIC = b"headrace engine 1 "


@dataclass(frozen=True, slots=True)
class Entry:
    """An engine that was found or built, which `fresh` tells."""

    engine: bytes
    report: Report
    fresh: bool


def key_of(package: Package, request: Request, gpu: Gpu | None, model: str | None = None) -> str:
    """Return what an engine is kept under; `gpu` is the one that it is for alone, `model` stands
    for more models than that of the request."""
    portable = request.settings.hardware_compatible
    if gpu is None:
        place: list[object] = []
    elif portable:
        place = [gpu.driver // 1000]
    else:
        place = [gpu.name, gpu.sm, gpu.driver // 1000]
    said = [
        *(package.name, package.version, model or request.model, place),
        [asdict(one) for one in request.ranges],
        asdict(request.settings),
    ]
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


class EngineCache:
    """A folder of engines; any number of processes may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, key: str) -> Entry | None:
        """Return a whole entry; None where there is none."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        return _unpacked(content)

    def take(self, key: str, build: Callable[[], Built]) -> Entry:
        """Return an entry, which is built where it is not there. Raises OSError where the folder
        cannot be written."""
        found = self.find(key)
        if found is not None:
            return found
        with locked(self._folder, key):
            found = self.find(key)  # another may have built it meanwhile
            if found is not None:
                return found
            built = build()
            write_whole(self._path(key), _packed(built))
            return Entry(built.engine, built.report, fresh=True)

    def timings(self, package: Package, gpu: Gpu | None) -> bytes | None:
        """Return what builders have measured on such a GPU; None where nothing was."""
        try:
            return self._timings(package, gpu).read_bytes()
        except OSError:
            return None

    def keep_timings(self, package: Package, gpu: Gpu | None, timings: bytes) -> None:
        path = self._timings(package, gpu)
        with locked(self._folder, path.stem):
            write_whole(path, timings)

    def _timings(self, package: Package, gpu: Gpu | None) -> Path:
        said = json.dumps([package.name, package.version, asdict(gpu) if gpu else None])
        return self._folder / f"timings-{sha256(said.encode()).hexdigest()[:16]}.cache"

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.engine"


def _packed(built: Built) -> bytes:
    body = built.report.as_json().encode() + b"\n" + built.engine
    return MAGIC + sha256(body).hexdigest().encode() + b"\n" + body


def _unpacked(content: bytes) -> Entry | None:
    head, _, body = content.partition(b"\n")
    if head != MAGIC + sha256(body).hexdigest().encode():
        return None
    report, _, engine = body.partition(b"\n")
    return Entry(engine, Report.from_json(report.decode()), fresh=False)
