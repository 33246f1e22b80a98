"""Kinds of models: what stands before the place of a model, how such a place is written, and what
goes into the plan of it.

A plan carries a file's bytes, a folder (or a file that has another beside it) as an archive, and of
what is elsewhere its address. Nothing is run or imported here: a plan is made where what runs it is
not installed. Kinds that other packages offer are known by their names alone.
"""

import zipfile
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import entry_points
from io import BytesIO
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from .folders import files_in
from .plan import BACKENDS, ENGINES, PROVIDED

PARTS: Final = ("open", "next")
"""Of a model that answers any number of times: what begins, and what gives the next answer."""

SCHEMES: Final = ("grpc", "http", "https")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the first time that a ZIP can tell


class Form(Enum):
    """How the place of a model is written."""

    PATH = "a file or folder"
    SYMBOL = "library.so:symbol"
    ADDRESS = "grpc://host:port/model"
    VERSION = "model/1/model.py"
    GATHERED = "model/1/model.onnx"


@dataclass(frozen=True, slots=True)
class Kind:
    """`backends` are what can run it, the usual one first. With `told` it is given the request that
    it serves."""

    form: Form
    backends: tuple[str, ...]
    told: bool = False


ONNX: Final = "onnx"
UNSERVED: Final = ("tensorrt",)
_BUILT_IN: Final = {
    ONNX: Kind(Form.PATH, (ONNX, *PROVIDED, *ENGINES, "openvino")),
    "openvino": Kind(Form.PATH, ("openvino",)),
    "torch": Kind(Form.PATH, ("torch",)),
    "tensorflow": Kind(Form.PATH, ("tensorflow",)),
    "litert": Kind(Form.PATH, ("litert",)),
    "remote": Kind(Form.ADDRESS, ("remote",), told=True),
    "native": Kind(Form.SYMBOL, ("native",)),
    "triton_python": Kind(Form.VERSION, ("triton_python",), told=True),
    "triton_ragged": Kind(Form.GATHERED, ("triton_ragged",)),
}


def kind_of(name: str) -> Kind | None:
    """Return a kind of model by its name; None where neither headrace nor a package has it."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    return Kind(Form.PATH, (name,)) if name in _offered() else None


def kind_names() -> tuple[str, ...]:
    """Return the names of all kinds, those of packages that are installed last."""
    return (*_BUILT_IN, *UNSERVED, "python", *_offered())


def backends_for(name: str) -> tuple[str, ...]:
    """Return what a schedule may say runs a model of a kind; of packages it is known when they
    are loaded."""
    kind = kind_of(name)
    own = kind.backends if kind is not None else ()
    return (*own, *(one for one in _offered() if one not in own)) if name == ONNX else own


def _offered() -> tuple[str, ...]:
    found = {one.name for one in entry_points(group=BACKENDS)}
    return tuple(sorted(found.difference(_BUILT_IN, ("python", "op"))))


def packed(path: Path) -> bytes:
    """Return what a plan carries of a model: a file as it is, with the weights that OpenVINO puts
    beside it, or all of a folder. The same files give the same bytes; raises OSError."""
    if path.is_dir():
        inside = {one.relative_to(path).as_posix(): one for one in files_in(path)}
        return _archive({name: one.read_bytes() for name, one in inside.items()})
    weights = path.with_suffix(".bin")
    if path.suffix == ".xml" and weights.is_file():
        return _archive({"model.xml": path.read_bytes(), "model.bin": weights.read_bytes()})
    return path.read_bytes()


def packed_version(path: Path) -> bytes:
    """Return what a plan carries of a model of a Triton repository: its version's
    folder, and all that is beside that but other versions; of a file in a folder that is none,
    which stands for version 1, the file alone. Raises OSError."""
    version = path.parent
    if not version.name.isdigit():
        return _archive({f"1/{path.name}": path.read_bytes()})
    around, files = version.parent, dict[str, bytes]()
    for one in files_in(around):
        inside = one.relative_to(around)
        other = inside.parts[0].isdigit() and inside.parts[0] != version.name
        if not other and "__pycache__" not in inside.parts:
            files[inside.as_posix()] = one.read_bytes()
    return _archive(files, around.resolve().name)


def split_version(location: str, suffix: str = ".py") -> tuple[str, str] | None:
    """Split `model/1/model.py`, or that with `:open` or `:next` behind it, into the path and which
    file and part of the model is meant; None when it is not written so."""
    path, colon, part = location.rpartition(":")
    if not colon or part not in PARTS:
        path, part = location, ""
    file = Path(path)
    if file.suffix != suffix:
        return None
    version = file.parent.name if file.parent.name.isdigit() else "1"
    return path, f"{version}/{file.name}" + (f":{part}" if part else "")


def _archive(files: dict[str, bytes], folder: str = "") -> bytes:
    """Return a ZIP, whose comment says what the folder is called where that matters."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # the same on every system
            archive.writestr(entry, content)
        archive.comment = folder.encode()
    return buffer.getvalue()


def split_symbol(location: str) -> tuple[str, str] | None:
    """Split `library.so:symbol`; None when it is not written so."""
    path, colon, symbol = location.rpartition(":")
    written = colon and path and symbol.isidentifier() and symbol.isascii()
    return (path, symbol) if written else None


def is_address(location: str) -> bool:
    """Tell whether this is `grpc://host:port/model`, or with http or https, with a version or
    without."""
    try:
        url = urlsplit(location)
        port = url.port
    except ValueError:  # a port that is no number
        return False
    parts = url.path.strip("/").split("/")
    whole = url.scheme in SCHEMES and bool(url.hostname) and (port or url.scheme != "grpc")
    plain = not (url.query or url.fragment or url.username or url.password)
    return bool(whole and plain and 1 <= len(parts) <= 2 and all(parts))
