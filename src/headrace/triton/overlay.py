"""A model as a caller wants it loaded: by a configuration in place of its own, and where the
operator allows it, of files in place of its own.

Both are laid over the repository as a folder with that one model, for the time of a load. Code
never comes from callers: neither a model whose files are code, nor where an interpreter is found.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

from google.protobuf import json_format

from ..compiler.folders import files_in
from ..compiler.plan import Plan
from ..runtime.protocols.messages import ModelConfig
from ..runtime.repository.keeper import Apps
from ..runtime.repository.version import Candidate, Configure
from .complete import ONNX, complete
from .config import Message
from .config_write import write
from .repository import CONFIG, Model, read

_DATA: Final = (ONNX, "openvino")
"""Backends whose files are no code."""
_ENVIRONMENT: Final = "EXECUTION_ENV_PATH"


def configuring(folders: tuple[Path, ...], find: Callable[[Path | None], Apps]) -> Configure:
    """Return what finds a model as a caller wants it; `find` looks into an overlay as well."""

    def configure(name: str, config: str, files: Mapping[str, bytes]) -> Mapping[int, Candidate]:
        own = next((one for one in read(folders).models if one.name == name), None)
        with overlaid(own, name, config, files) as over:
            found = find(over).get(name, {})
            return {number: _settled(one) for number, one in found.items()}

    return configure


@contextmanager
def overlaid(
    own: Model | None, name: str, config: str, files: Mapping[str, bytes]
) -> Generator[Path]:
    """Give a folder with a model by a configuration in JSON, with the files that it has itself, or
    the `files` that are given; raises ValueError where they cannot be."""
    message = _message(config)
    if own is not None and _environment(message) not in ("", _environment(own.message)):
        raise ValueError(f"`{_ENVIRONMENT}` is the server's to say, not a caller's")
    with TemporaryDirectory(prefix="headrace-load-") as place:
        folder = Path(place) / PurePosixPath(name).name
        folder.mkdir()
        (folder / CONFIG).write_text(write(message), "utf-8")
        if files:
            _write(folder, files)
            _require_data(read(Path(place)).models[0])
        elif own is not None:
            _mirror(own.folder, folder)
        yield Path(place)


def _message(config: str) -> Message:
    try:
        return json_format.Parse(config, ModelConfig())
    except (json_format.ParseError, UnicodeError, RecursionError) as error:
        raise ValueError(f"the configuration cannot be read: {error}") from None


def _environment(message: Message) -> str:
    known = _ENVIRONMENT in message.parameters
    return message.parameters[_ENVIRONMENT].string_value if known else ""


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or len(path.parts) < 2:
            raise ValueError(f"`{name}` is no file of a version: it is called `1/model.onnx`")
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _require_data(model: Model) -> None:
    config = complete(model)
    if config.HasField("ensemble_scheduling"):
        return
    if config.backend not in _DATA:
        raise ValueError(
            f"`{model.name}` would run on `{config.backend}`, and its files are code: that never "
            "comes from callers; put the model into the server's folder"
        )


def _mirror(own: Path, folder: Path) -> None:
    """Let all files of a model be found in a folder, but its configuration."""
    for one in own.iterdir():
        if one.is_dir():  # the version of an ensemble is empty
            (folder / one.name).mkdir(parents=True, exist_ok=True)
    for path in files_in(own):
        target = folder / path.relative_to(own)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(path.resolve())


def _settled(candidate: Candidate) -> Candidate:
    """Return a candidate that is read already, while its files are there."""
    try:
        plan, described = candidate.read(), candidate.describe()
    except Exception as error:  # whatever it is, who loads it is told
        return replace(candidate, read=_failing(error), stamp=None)
    return replace(candidate, read=lambda: plan, describe=lambda: described, stamp=None)


def _failing(error: Exception) -> Callable[[], Plan]:
    def read() -> Plan:
        raise error

    return read
