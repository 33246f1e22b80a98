"""Values as files: JSON that a person can read, refused as a whole when anything is off.

```
{"format": "headrace profile 1", "profile": {...}}
```
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from ..dsl.diagnostic import Refusal
from .literal_codec import Attachments, Json, Malformed
from .plan_codec import Codec, Codecs

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class JsonFile(Generic[Value]):
    """Files of one kind of value. `name` is what it is called there, `check` raises Malformed where
    one means nothing; what is refused is an `error` of that `code`, whose cure is `help`."""

    kind: type[Value]
    name: str
    check: Callable[[Value], None]
    error: type[Refusal]
    code: str
    help: str

    @property
    def format(self) -> str:
        return f"headrace {self.name} 1"

    def to_json(self, value: Value) -> str:
        """Return the text of a file."""
        whole = {"format": self.format, self.name: self._codec().encode(value)}
        return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"

    def write(self, value: Value, path: "str | os.PathLike[str]") -> None:
        """Write a file; raises OSError."""
        Path(path).write_text(self.to_json(value), encoding="utf-8")

    def read(self, path: "str | os.PathLike[str]") -> Value:
        """Return the value in a file; raises what `error` says and nothing else."""
        try:
            whole: Json = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise self._refused(path, f"cannot be read: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise self._refused(path, "is not text") from error
        except (ValueError, RecursionError) as error:
            raise self._refused(path, f"is not JSON: {error}") from error
        if not isinstance(whole, dict) or whole.get("format") != self.format:
            raise self._refused(path, f"is not a {self.name}: its `format` is not {self.format!r}")
        try:
            value: Value = self._codec().decode(whole.get(self.name))
            self.check(value)
        except Malformed as error:
            raise self._refused(path, f"is malformed: {error}") from error
        return value

    def _codec(self) -> Codec:
        return Codecs(Attachments()).of(self.kind, self.kind)

    def _refused(self, path: "str | os.PathLike[str]", why: str) -> Refusal:
        return self.error(self.code, f"{path} {why}", self.help)
