"""Which argument of a call is which parameter: by position, then by name."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...dsl import ast
from ...dsl.diagnostic import Label
from .problems import Problems, did_you_mean


@dataclass(frozen=True, slots=True)
class Slot:
    """A parameter as a call sees it. A `keyword` one is given by name only; a `variadic` one
    takes all that is left."""

    name: str
    required: bool
    variadic: bool = False
    keyword: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """The arguments of each slot, in the slots' order (none, one, or several if variadic)."""

    arguments: tuple[tuple[ast.Argument, ...], ...]
    complete: bool


def bind(
    call: ast.Call, callee: str, slots: Sequence[Slot], signature: str, problems: Problems
) -> Bound:
    """Assign arguments to slots. Everything wrong with that is reported; `complete` is then
    False. `signature` is shown with it."""
    found: dict[str, list[ast.Argument]] = {slot.name: [] for slot in slots}
    by_name = {slot.name: slot for slot in slots}
    note = (f"`{callee}` is {signature}",)
    positional = [slot for slot in slots if not slot.keyword]
    complete, named = True, False
    place = 0
    unknown = any(one.name is not None and one.name.text not in by_name for one in call.arguments)
    for argument in call.arguments:
        if argument.name is None and named:
            problems.error(
                "HR209",
                f"an argument of `{callee}` without a name follows one with a name",
                argument.span,
                help="put arguments by position first",
            )
            complete = False
        elif argument.name is None:
            if place >= len(positional):
                many = len(positional)
                problems.error(
                    "HR209",
                    f"`{callee}` takes {many or 'no'} argument{'s' * (many != 1)}"
                    + (" by position" if len(slots) > many else ""),
                    argument.span,
                    "one too many",
                    notes=note,
                )
                return Bound(_collect(slots, found), False)
            slot = positional[place]
            found[slot.name].append(argument)
            place += not slot.variadic
        else:
            named = True
            complete &= _by_name(argument, argument.name, callee, by_name, found, note, problems)
    for slot in slots:
        if slot.required and not found[slot.name]:
            complete = False
            if unknown:
                continue  # most likely it is given by a wrong name
            problems.error(
                "HR208",
                f"`{callee}` needs `{slot.name}`, which is not given",
                call.span,
                f"`{slot.name}` is missing",
                notes=note,
            )
    return Bound(_collect(slots, found), complete)


def _by_name(
    argument: ast.Argument,
    name: ast.Ident,
    callee: str,
    by_name: dict[str, Slot],
    found: dict[str, list[ast.Argument]],
    note: tuple[str, ...],
    problems: Problems,
) -> bool:
    slot = by_name.get(name.text)
    if slot is None:
        problems.error(
            "HR107",
            f"`{callee}` has no parameter `{name.text}`",
            name.span,
            notes=note,
            help=did_you_mean(name.text, by_name),
        )
        return False
    if found[slot.name] and not slot.variadic:
        problems.error(
            "HR105",
            f"`{name.text}` is given twice",
            argument.span,
            "again here",
            secondary=(Label(found[slot.name][0].span, f"`{name.text}` is first given here"),),
        )
        return False
    found[slot.name].append(argument)
    return True


def _collect(
    slots: Sequence[Slot], found: dict[str, list[ast.Argument]]
) -> tuple[tuple[ast.Argument, ...], ...]:
    return tuple(tuple(found[slot.name]) for slot in slots)
