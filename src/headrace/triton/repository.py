"""Folders of models as a tritonserver lays them out: models, their versions and files.

    REPOSITORY/MODEL/config.pbtxt      or configs/NAME.pbtxt where the server is told a NAME
    REPOSITORY/MODEL/1/model.onnx      a folder for each version
    REPOSITORY/.git                    what begins with a dot is passed over

What is read is what is there; whether it is good is for `check.py` to say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..dsl.source import Source
from ..runtime.triton_python.config import decoded
from .config import Config, Message, empty, read_config, unread

CONFIG = "config.pbtxt"
CONFIGS = "configs"


@dataclass(frozen=True, slots=True)
class Version:
    number: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Model:
    """A folder of a repository; `config` is what its file says, before anything is completed.

    `written` says whether there is such a file. `passed_over` are folders whose names are not
    those of versions though they begin like one.
    """

    name: str
    folder: Path
    config: Config
    versions: tuple[Version, ...]  # in ascending order
    written: bool = True
    passed_over: tuple[Path, ...] = ()

    @property
    def message(self) -> Message:
        """The `ModelConfig` as written; `complete.complete` gives the one that holds."""
        return self.config.message

    @property
    def is_ensemble(self) -> bool:
        return self.message.platform == "ensemble" or self.message.HasField("ensemble_scheduling")


@dataclass(frozen=True, slots=True)
class Repository:
    """All models of one or several folders, by name; a name that is there twice stands twice."""

    folders: tuple[Path, ...]
    models: tuple[Model, ...]

    def named(self, name: str) -> Model | None:
        return next((one for one in self.models if one.name == name), None)


def read(folders: Path | Sequence[Path], config_name: str | None = None) -> Repository:
    """Read the models of repositories; `config_name` is that of `--model-config-name`.

    Raises OSError when a folder cannot be read.
    """
    paths = (folders,) if isinstance(folders, Path) else tuple(folders)
    models = [
        _model(entry, config_name)
        for path in paths
        for entry in sorted(path.iterdir())
        if entry.is_dir() and not entry.name.startswith(".")
    ]
    models.sort(key=lambda one: one.name)
    return Repository(paths, tuple(models))


def _model(folder: Path, config_name: str | None) -> Model:
    path = folder / CONFIG
    if config_name is not None and (named := folder / CONFIGS / f"{config_name}.pbtxt").is_file():
        path = named
    written = path.is_file()
    config = _config(path) if written else empty(folder.name, path)
    folders = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    numbered = [entry for entry in folders if entry.name[:1].isdigit()]
    good = [entry for entry in numbered if _is_version(entry.name)]
    versions = sorted((Version(int(entry.name), entry) for entry in good), key=lambda v: v.number)
    passed_over = tuple(entry for entry in numbered if entry not in good)
    return Model(folder.name, folder, config, tuple(versions), written, passed_over)


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit() and not (name.startswith("0") and name != "0")


def _config(path: Path) -> Config:
    content = path.read_bytes()
    try:
        text = decoded(content)
    except UnicodeDecodeError as error:
        source = Source(str(path), content[: error.start].decode("utf-8"), path)
        return unread(source)
    return read_config(Source(str(path), text, path))
