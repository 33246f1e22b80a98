"""What the bindings of a version of TensorRT look like, and do on a simulated device.

Nothing is there that `signatures/<version>.json` does not have, and nothing may be called with
other arguments than it says: what runs on a stand-in calls the real bindings rightly, too. An
engine is the ONNX model, its profile and its settings; ONNX Runtime runs it at the addresses that
it is given.
"""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.runtime.tensorrt.signatures import members
from tests.runtime.tensorrt.stand_in_parts import (
    Builder,
    Config,
    Context,
    Engine,
    Network,
    Parser,
    ParserRefitter,
    Profile,
    Refitter,
    Runtime,
    TimingCache,
    Word,
)


def stand_in(version: str, *, dla_cores: int = 0, fails: set[str] | None = None) -> Any:
    """Return a module. `fails` names methods that give what they give when they fail."""
    return _Made(version, dla_cores, fails or set()).module


class _Made:
    """The classes of one version, which know each other by the module."""

    def __init__(self, version: str, dla_cores: int, fails: set[str]) -> None:
        self.known, self.fails, self.dla_cores = members(version), fails, dla_cores
        self.module = SimpleNamespace(__version__=version.removeprefix("rtx-"))
        self.module.calls = []
        enums: dict[str, list[str]] = {}
        for path in self.known:
            name, _, member = path.partition(".")
            if member.isupper() or member[:1].isupper():
                enums.setdefault(name, []).append(member)
        for name, words in enums.items():
            values = {word: Word(name, word, number) for number, word in enumerate(words)}
            setattr(self.module, name, SimpleNamespace(**values))
        for kind in (Builder, Network, Parser, Config, Profile, Runtime, Engine, Context):
            setattr(self.module, kind.called, self._limited(kind))
        for kind in (TimingCache, Refitter, ParserRefitter):
            if any(path.startswith(f"{kind.called}.") for path in self.known):
                setattr(self.module, kind.called, self._limited(kind))
        logger = type("ILogger", (), {"ERROR": "error", "INTERNAL_ERROR": "internal"})
        self.module.ILogger, self.module.IOutputAllocator = logger, type("IOutputAllocator", (), {})

    def _limited(self, kind: Any) -> Any:
        """Return a class that has what this version has of a stand-in."""
        own = [path.partition(".")[2] for path in self.known if path.startswith(f"{kind.called}.")]
        fields: dict[str, Any] = dict.fromkeys((one for one in own if not hasattr(kind, one)), 0)
        fields["made"] = self
        for name, member in vars(kind).items():
            path = f"{kind.called}.{name}"
            if name.startswith("_") or name == "called":
                continue
            if path not in self.known:
                fields[name] = _absent(path)
            elif callable(member):
                fields[name] = self._held(path, member)
        fields["__setattr__"] = self._setting(kind)
        return type(kind.called, (kind,), fields)

    def _held(self, path: str, member: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method that takes what its signature says."""
        least, most = _arity(self.known[path])

        def call(this: Any, *arguments: Any) -> Any:
            assert least <= len(arguments) <= most, f"{path} takes {self.known[path]}"
            self.module.calls.append(path)
            if path in self.fails:
                return None if path.startswith(("Runtime", "Builder", "ICuda")) else False
            return member(this, *arguments)

        return call

    def _setting(self, kind: Any) -> Callable[[Any, str, Any], None]:
        def set(this: Any, name: str, value: Any) -> None:
            if not name.startswith("_") and f"{kind.called}.{name}" not in self.known:
                raise AttributeError(f"{kind.called} has no {name}")
            object.__setattr__(this, name, value)

        return set


def _absent(path: str) -> Any:
    def missing(_this: Any) -> Any:
        raise AttributeError(path)

    return property(missing)


def _arity(signature: str) -> tuple[int, int]:
    """Return how many arguments a method takes at least and at most."""
    inside = signature.partition("(self")[2].rpartition(") ->")[0]
    names = len(re.findall(r", \w+:", inside))
    return names - inside.count(" = "), names
