"""What may stand in a schedule: sections of keys, and values that are counts, times, sizes, words.

A reader takes a setting and returns its value or raises `Mistake`; a `Section` hands each of its
settings to the reader of its key and keeps the mistakes, so that one run reports all of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..dsl import ast
from ..dsl.diagnostic import Diagnostic, Label
from ..dsl.nearest import nearest
from ..dsl.source import Span

T = TypeVar("T")


class Mistake(Exception):
    """A setting is refused; carries what is said of it."""

    def __init__(
        self, code: str, message: str, span: Span, label: str = "", help: str | None = None
    ) -> None:
        self.diagnostic = Diagnostic(code, message, Label(span, label), help=help)
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one kind of section, and where keys that belong elsewhere belong."""

    owner: str  # "a stage", "`batch`"
    served: tuple[str, ...]
    elsewhere: tuple[tuple[str, str], ...] = ()


class Section:
    """The settings between one pair of braces. Take every key; then `finish`."""

    def __init__(self, keys: Keys, settings: Sequence[ast.Setting]) -> None:
        self.keys = keys
        self.diagnostics: list[Diagnostic] = []
        self._settings: dict[str, ast.Setting] = {}
        for setting in settings:
            self._admit(setting)

    def _admit(self, setting: ast.Setting) -> None:
        key = setting.key
        first = self._settings.setdefault(key.text, setting)
        if first is not setting:
            self.diagnostics.append(
                Diagnostic(
                    "HR407",
                    f"`{key.text}` is set twice",
                    Label(key.span, "set again here"),
                    (Label(first.key.span, "first set here"),),
                )
            )

    def take(self, key: str, reader: Callable[[ast.Setting], T]) -> T | None:
        """Return what `reader` makes of the key; None when it is absent or a mistake."""
        setting = self._settings.pop(key, None)
        if setting is None:
            return None
        try:
            return reader(setting)
        except Mistake as mistake:
            self.diagnostics.append(mistake.diagnostic)
            return None

    def refuse(self, key: str, code: str, message: str, help: str | None = None) -> None:
        """Take a key that would have no effect, if it is there, and say why."""
        setting = self._settings.pop(key, None)
        if setting is not None:
            self.diagnostics.append(no_effect(setting.key, message, help, code))

    def finish(self) -> list[Diagnostic]:
        """Report the keys that nobody took and return all mistakes, in the order written."""
        for setting in self._settings.values():
            self.diagnostics.append(self._unknown(setting.key))
        self._settings.clear()
        return sorted(self.diagnostics, key=lambda found: found.primary.span.start)

    def close(
        self, setting: ast.Setting, diagnostics: list[Diagnostic], needs: str | None = None
    ) -> None:
        """Finish the braces of `setting`; raises Mistake when the key of `needs` (`max = 8`) is
        not there, unless it may be the one that is misspelt."""
        mistakes = self.finish()
        diagnostics += mistakes
        if needs is None or mistakes:
            return
        key = needs.partition(" ")[0]
        if key not in {entry.key.text for entry in entries(setting)}:
            owner = setting.key
            message = f"`{owner.text}` needs `{key}`"
            raise Mistake("HR406", message, owner.span, help=f"add `{needs}`")

    def _unknown(self, key: ast.Ident) -> Diagnostic:
        keys, name = self.keys, key.text
        label = Label(key.span)
        place = dict(keys.elsewhere).get(name)
        if place is not None:
            message = f"`{name}` has no effect in {keys.owner}: it belongs in {place}"
            return Diagnostic("HR403", message, label)
        meant = nearest(name, keys.served)
        return Diagnostic(
            "HR402",
            f"{keys.owner} has no key `{name}`",
            Label(key.span, "unknown key"),
            notes=(f"{keys.owner} takes {', '.join(f'`{known}`' for known in keys.served)}",),
            help=f"did you mean `{meant}`?" if meant else None,
        )


def no_effect(
    key: ast.Ident, message: str, help: str | None = None, code: str = "HR403"
) -> Diagnostic:
    """Return the mistake of a key that nothing would heed."""
    return Diagnostic(code, message, Label(key.span, "has no effect"), help=help)


# ---- readers


def entries(setting: ast.Setting) -> tuple[ast.Setting, ...]:
    """Read `key { ... }`."""
    if setting.settings is None:
        key = setting.key
        raise Mistake(
            "HR405", f"`{key.text}` takes settings in braces", setting.span, f"`{key.text} {{ }}`"
        )
    return setting.settings


def value(setting: ast.Setting) -> ast.Expr:
    """Read `key = value`."""
    if setting.value is None:
        key = setting.key.text
        raise Mistake("HR405", f"`{key}` takes a value", setting.span, f"write `{key} = ...`")
    return setting.value


def count(setting: ast.Setting) -> int:
    """Read a whole number from 1 up."""
    return whole(setting, value(setting))


def counts(setting: ast.Setting, least: int = 1) -> tuple[int, ...]:
    """Read a list of different whole numbers from `least` up, in ascending order whatever was
    written."""
    expr = value(setting)
    if not isinstance(expr, ast.ListLiteral):
        raise _wrong_kind(setting, expr, f"a list such as {[least, 8]}")
    if not expr.items:
        raise Mistake("HR406", f"`{setting.key.text}` names no number", expr.span)
    numbers = [whole(setting, item, least) for item in expr.items]
    if len(set(numbers)) != len(numbers):
        raise Mistake("HR406", f"`{setting.key.text}` names a number twice", expr.span)
    return tuple(sorted(numbers))


def duration(setting: ast.Setting) -> float:
    """Read a time in seconds, zero allowed."""
    expr = value(setting)
    if _negative(expr):
        raise Mistake("HR406", f"`{setting.key.text}` must not be negative", expr.span)
    if not isinstance(expr, ast.Duration):
        raise _wrong_kind(setting, expr, "a time such as 2ms")
    return expr.seconds


def positive_duration(setting: ast.Setting) -> float:
    """Read a time in seconds above zero."""
    seconds = duration(setting)
    if seconds <= 0:
        raise Mistake("HR406", f"`{setting.key.text}` must be above zero", setting.span)
    return seconds


def size(setting: ast.Setting) -> int:
    """Read a size in bytes above zero."""
    expr = value(setting)
    if not isinstance(expr, ast.Size):
        raise _wrong_kind(setting, expr, "a size such as 900MiB")
    if expr.bytes <= 0:
        raise Mistake("HR406", f"`{setting.key.text}` must be above zero", expr.span)
    return expr.bytes


def word(*choices: str) -> Callable[[ast.Setting], str]:
    """Return the reader of one of some words."""

    def read(setting: ast.Setting) -> str:
        expr = value(setting)
        listed = " or ".join(choices)
        if not isinstance(expr, ast.Name):
            raise _wrong_kind(setting, expr, listed)
        if expr.text not in choices:
            meant = nearest(expr.text, choices)
            raise Mistake(
                "HR405",
                f"`{setting.key.text}` is {listed}, not `{expr.text}`",
                expr.span,
                help=f"did you mean `{meant}`?" if meant else None,
            )
        return expr.text

    return read


def device(setting: ast.Setting) -> str:
    """Read `cpu`, `sim`, `sim(1)` or `gpu(0)`; gives "cpu", "sim", "sim:1", "gpu:0"."""
    return device_named(setting, value(setting))


def device_named(setting: ast.Setting, expr: ast.Expr) -> str:
    """Return the device that an expression of a setting names."""
    match expr:
        case ast.Name(text="cpu" | "sim" as name):
            return name
        case ast.Name(text="gpu"):
            raise Mistake(
                "HR420", "`gpu` needs the number of the device", expr.span, help="write `gpu(0)`"
            )
        case ast.Call(
            callee=ast.Name(text="gpu" | "sim" as kind),
            arguments=(ast.Argument(name=None, value=ast.Number(value=int(index))),),
        ):
            return f"{kind}:{index}" if index or kind == "gpu" else kind
        case ast.Name(text=name) | ast.Call(callee=ast.Name(text=name)):
            raise unknown_device(name, expr.span)
        case _:
            raise _wrong_kind(setting, expr, "a device such as gpu(0)")


def numbered(key: ast.Ident, name: str) -> int | None:
    """Return the number of a key `name(n)`; None of any other."""
    number = key.text.removeprefix(f"{name}(").removesuffix(")")
    return int(number) if key.text == f"{name}({number})" and number.isdecimal() else None


def device_key(key: ast.Ident) -> str | None:
    """Return the device that a key such as `gpu(0)` names; None of any other."""
    for kind in ("gpu", "sim"):
        index = numbered(key, kind)
        if index is not None:
            return f"{kind}:{index}" if index or kind == "gpu" else kind
    return key.text if key.text in ("cpu", "sim") else None


def written(device: str) -> str:
    """Return a device as a schedule has it: `gpu(0)`."""
    kind, _, index = device.partition(":")
    return f"{kind}({index})" if index else kind


def unknown_device(name: str, span: Span) -> Mistake:
    """Return the mistake of a device that there is not, or not yet."""
    if name == "dla":
        return Mistake("HR404", "`dla` is not served yet: nothing would heed it", span)
    meant = "gpu" if name == "cuda" else nearest(name, ("cpu", "sim", "gpu"))
    help = f"did you mean `{'gpu(0)' if meant == 'gpu' else meant}`?" if meant else None
    return Mistake(
        "HR420", f"there is no device `{name}`; there are cpu, sim(n), gpu(n)", span, "", help
    )


def whole(setting: ast.Setting, expr: ast.Expr, least: int = 1) -> int:
    """Return the whole number from `least` up that an expression of a setting is."""
    if _negative(expr):
        raise Mistake("HR406", f"`{setting.key.text}` must be {least} or more", expr.span)
    if not isinstance(expr, ast.Number) or not isinstance(expr.value, int):
        raise _wrong_kind(setting, expr, "a whole number")
    if expr.value < least:
        raise Mistake("HR406", f"`{setting.key.text}` must be {least} or more", expr.span)
    return expr.value


def _negative(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Unary) and expr.op == "-"


def _wrong_kind(setting: ast.Setting, expr: ast.Expr, wants: str) -> Mistake:
    return Mistake("HR405", f"`{setting.key.text}` wants {wants}", expr.span, f"wants {wants}")
