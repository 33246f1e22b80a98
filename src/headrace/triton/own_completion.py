"""What models of the Python backend say of their own configuration, asked once for each file."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf import json_format

from ..dsl.diagnostic import Diagnostic, Label
from ..runtime.load_error import LoadError
from .complete import PYTHON, model_file, normalize
from .config import Message
from .repository import Model
from .translate.described import as_json
from .translate.draft import UNSERVED

_ASKED = b"auto_complete_config"


@dataclass(slots=True)
class OwnCompletions:
    """Remembers what was said, until a file is another. `mistakes` are of the last time."""

    mistakes: list[Diagnostic] = field(default_factory=list[Diagnostic])
    _known: dict[Hashable, Message | str] = field(default_factory=dict[Hashable, "Message | str"])

    def complete(self, model: Model, config: Message) -> Message:
        """Return the configuration as the model completes it; the same where it does not."""
        file = model_file(model, config) if config.backend == PYTHON else None
        if file is None or not asked_for(file):
            return config
        status = file.stat()
        key = (str(file), status.st_mtime_ns, status.st_size, config.SerializeToString())
        if key not in self._known:
            self._known[key] = _asked(file, config)
        found = self._known[key]
        if not isinstance(found, str):
            return found
        self.mistakes.append(Diagnostic(UNSERVED, found, Label(model.config.place("name"))))
        return config


def asked_for(file: Path) -> bool:
    """Whether a model of a file has something to say of its configuration."""
    return file.is_file() and _ASKED in file.read_bytes()


def _asked(file: Path, config: Message) -> Message | str:
    from ..runtime.triton_python.complete import completed

    try:
        said = completed(file, as_json(config))
    except LoadError as error:
        return str(error)
    found = json_format.ParseDict(said, type(config)(), ignore_unknown_fields=True)
    normalize(found)
    return found
