"""A model's configuration: the message that protobuf makes of a text, and where its fields are."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf import text_format

from ..dsl.diagnostic import Diagnostic, Label, Severity
from ..dsl.source import Source, Span
from ..runtime.protocols.messages import ModelConfig
from .config_fields import Unknown, check_fields
from .config_text import Block, Field, Scalar, Value, key_of, read_tree

Message: TypeAlias = Any  # Any: made at run time, pyright cannot know its fields


@dataclass(frozen=True, slots=True)
class Config:
    """`message` is a `ModelConfig` as written; where there are errors, it is empty.

    `unknown` are the fields that a `ModelConfig` does not have, each with the path of its block.
    """

    message: Message
    source: Source
    tree: Block = field(repr=False)
    mistakes: tuple[Diagnostic, ...] = ()
    unknown: tuple[Unknown, ...] = ()

    @property
    def good(self) -> bool:
        return all(one.severity is not Severity.ERROR for one in self.mistakes)

    def place(self, *path: str | int) -> Span:
        """Return where a field stands: `("input", 1, "dims", 0)`, `("parameters", "KEY")`.

        That is the value of a number or text and the name of a block; of what is not written, the
        nearest block around it; of a file without anything, its beginning.
        """
        here, place = self.tree, Span(self.source, 0, 0)
        steps = list(path)
        while steps:
            fields = here.named(str(steps.pop(0)))
            values = [(one, value) for one in fields for value in one.values]
            if steps and (isinstance(steps[0], int) or _is_map(values)):
                values = _chosen(values, steps.pop(0))
            if not values:
                break
            owner, value = values[0]
            if isinstance(value, Scalar):
                return value.place
            here, place = value, _named(owner, value)
        return place


def _named(owner: Field, value: Block) -> Span:
    """Return what to point at for a block: its field's name, or its brace in a list of several."""
    if not owner.listed or len(owner.values) == 1:
        return owner.place
    return Span(value.place.source, value.place.start, value.place.start + 1)


def _chosen(values: list[tuple[Field, Value]], key: str | int) -> list[tuple[Field, Value]]:
    """Return the element of a number, or the entry of a map with a key, if it is there."""
    if isinstance(key, int) and not _is_map(values):
        return values[key : key + 1]
    return [one for one in values if key_of(one[1]) == str(key)]


def _is_map(values: list[tuple[Field, Value]]) -> bool:
    return any(key_of(value) is not None for _, value in values)


def read_config(source: Source) -> Config:
    """Read a text; what is wrong with it stands in the result's `mistakes`."""
    tree = read_tree(source)
    found = list(tree.mistakes)
    unknown: list[Unknown] = []
    if not any(one.code == "HR601" for one in found):
        fields = check_fields(tree.root, ModelConfig.DESCRIPTOR)
        found += fields.mistakes
        unknown += fields.unknown
    message = ModelConfig()
    if all(one.severity is not Severity.ERROR for one in found):
        try:
            text_format.Parse(source.text, message, allow_unknown_field=True)
        except text_format.ParseError as error:
            found.append(_refused(source, error))
            message = ModelConfig()
    found.sort(key=lambda one: one.primary.span.start)
    return Config(message, source, tree.root, tuple(found), tuple(unknown))


def _refused(source: Source, error: text_format.ParseError) -> Diagnostic:
    """Say what protobuf says where ours found nothing: a rule that only it knows."""
    line, column = error.GetLine() or 1, error.GetColumn() or 1
    lines = source.text.splitlines(keepends=True)
    start = sum(map(len, lines[: line - 1])) + column - 1
    said = str(error).partition(" : ")[2] or str(error)
    return Diagnostic("HR604", said, Label(Span(source, start, start + 1)))


def empty(name: str, path: Path) -> Config:
    """Return the configuration of a model that has no file for it; everything is completed."""
    source = Source(str(path), "", path)
    message = ModelConfig()
    message.name = name
    return Config(message, source, Block((), Span(source, 0, 0)))


def data_type(name: str) -> int:
    """Return the number of a datatype by its name on the wire, `FP32`; raises KeyError."""
    return (
        ModelConfig.DESCRIPTOR.file.enum_types_by_name["DataType"]
        .values_by_name[f"TYPE_{name}"]
        .number
    )


def data_type_name(number: int) -> str:
    """Return `TYPE_FP32`."""
    return ModelConfig.DESCRIPTOR.file.enum_types_by_name["DataType"].values_by_number[number].name


def unread(source: Source) -> Config:
    """Return the configuration of a file that is no text; `source` holds what comes before."""
    end = len(source.text)
    mistake = Diagnostic(
        "HR601",
        "a configuration is text in UTF-8",
        Label(Span(source, end, end), "what comes here is not"),
        help="save the file as UTF-8",
    )
    return Config(ModelConfig(), source, Block((), Span(source, 0, 0)), (mistake,))
