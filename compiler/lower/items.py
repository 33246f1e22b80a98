"""The items of a file become entities: names first, then what they stand for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from ...dsl import ast
from ...dsl.diagnostic import CompileError
from ...dsl.parse import parse
from ...dsl.source import Source
from ...dsl.types import UNKNOWN
from ..assets import Missing, locate
from .constant_order import in_order, mentioned
from .constants import read_constant, read_defaults
from .entities import (
    Entity,
    File,
    Mistaken,
    NamedType,
    Routine,
    UsedFamily,
    UsedFile,
)
from .function_items import read_function
from .model_items import read_model
from .outside_names import refuse_called, require_distinct, require_distinct_pipelines
from .problems import did_you_mean
from .session import Session
from .states import idle_of, read_states
from .type_expressions import SCALARS, given_twice, read_signature, read_type


@dataclass(frozen=True, slots=True, eq=False)
class Loading:
    """Reads files and those that they use. `open` are the files being read, outermost first."""

    session: Session
    open: tuple[Path, ...] = ()
    routines: list[Routine] = field(default_factory=list[Routine])

    def read(self, module: ast.Module, source: Source, prefix: str = "") -> File:
        """Return a file with everything its items stand for."""
        file = File(source, module, prefix)
        named = [(item, name) for item in module.items if (name := name_of(item)) is not None]
        kept = [item for item, name in named if self._declare(file, name)]
        require_distinct_pipelines(kept, self.session.problems)
        self._read_all(file, kept)
        return file

    def _declare(self, file: File, name: ast.Ident) -> bool:
        """Take a name for an item; False when it is taken already."""
        problems = self.session.problems
        if name.text in SCALARS:
            problems.error("HR114", f"`{name.text}` is a type of the language", name.span)
            return False
        if name.text in file.places:
            given_twice(name.text, name.span, file.places[name.text], problems)
            return False
        file.places[name.text] = name.span
        return True

    def _read_all(self, file: File, items: Sequence[ast.Item]) -> None:
        for item in items:
            if isinstance(item, ast.UseModule):
                file.entities[(item.alias or item.name).text] = self._module(item)
            elif isinstance(item, ast.UseFile):
                file.entities[item.alias.text] = self._file(item, file)
        self._types(file, [item for item in items if isinstance(item, ast.TypeDef)])
        self._constants(file, items)
        session = self.session
        for item in items:
            match item:
                case ast.Model():
                    file.entities[item.name.text] = read_model(item, file, session)
                case ast.Fn(body=ast.External() as external):
                    file.entities[item.name.text] = read_function(item, external, file, session)
                case ast.Fn(body=ast.Block() as block):
                    file.entities[item.name.text] = self._routine(item, block, file)
                case ast.Pipeline():
                    file.entities[item.name.text] = self._routine(item, item.body, file)
                case _:
                    pass

    def _constants(self, file: File, items: Sequence[ast.Item]) -> None:
        """Read constants so that each comes after those it mentions; circles are mistakes."""
        session = self.session
        constants = [item for item in items if isinstance(item, ast.Const)]
        later = {
            item.name.text for item in items if isinstance(item, ast.Model | ast.Fn | ast.Pipeline)
        }
        ordered = in_order(constants, session.problems)
        sound = {item.name.text for item in ordered}
        for item in constants:
            if item.name.text not in sound:
                file.entities[item.name.text] = Mistaken()
        for item in ordered:
            run = [name for name in mentioned(item.value) if name in later]
            for name in run:
                message = f"`{name}` runs when the pipeline does"
                session.problems.error("HR219", message, item.value.span)
            entity = Mistaken() if run else read_constant(item, file, session)
            file.entities[item.name.text] = entity

    def _module(self, item: ast.UseModule) -> Entity:
        family = self.session.catalog.family(item.name.text)
        if family is not None:
            return UsedFamily(family)
        families = self.session.catalog.families
        self.session.problems.error(
            "HR102",
            f"there is no module `{item.name.text}`",
            item.name.span,
            notes=(f"modules are {', '.join(f'`{name}`' for name in families)}",),
            help=did_you_mean(item.name.text, families),
        )
        return Mistaken()

    def _file(self, item: ast.UseFile, file: File) -> Entity:
        problems, location = self.session.problems, item.path
        if location.value and not location.value.endswith(".pipe") and "://" not in location.value:
            problems.error(
                "HR113",
                f"`{location.value}` is no `.pipe` file, and `use` reads no other",
                location.span,
                help=_loaded(location.value),
            )
            return Mistaken()
        try:
            path = locate(location.value, file.source.directory).resolve()
            text = path.read_text("utf-8-sig")
        except Missing as missing:
            problems.error("HR113", missing.message, location.span, help=missing.help)
            return Mistaken()
        except (OSError, UnicodeDecodeError) as error:
            problems.error("HR113", f"`{location.value}` cannot be read: {error}", location.span)
            return Mistaken()
        opened = (*self.open, *([file.source.path.resolve()] if file.source.path else []))
        if path in opened:
            problems.error(
                "HR112",
                f"`{location.value}` uses this file: files cannot use each other in a circle",
                location.span,
            )
            return Mistaken()
        source = Source(_shown_name(location.value, file), text, path)
        try:
            module = parse(source)
        except CompileError as error:
            for diagnostic in error.diagnostics:
                problems.add(diagnostic)
            return Mistaken()
        loading = Loading(self.session, opened, self.routines)
        return UsedFile(loading.read(module, source, f"{file.prefix}{item.alias.text}."))

    def _types(self, file: File, items: Sequence[ast.TypeDef]) -> None:
        """Read types so that each comes after those it is made of; circles are mistakes."""
        waiting = {item.name.text: item for item in items}

        def read(item: ast.TypeDef, inside: tuple[str, ...]) -> None:
            name = item.name.text
            del waiting[name]
            file.entities[name] = Mistaken()
            for part in _type_names(item.type):
                if part.name in (*inside, name):
                    self.session.problems.error(
                        "HR111", f"the type `{name}` is made of itself", part.span
                    )
                elif part.name in waiting:
                    read(waiting[part.name], (*inside, name))
            type = read_type(item.type, file, self.session.problems)
            file.entities[name] = Mistaken() if type == UNKNOWN else NamedType(type)

        while waiting:
            read(next(iter(waiting.values())), ())

    def _routine(self, item: ast.Fn | ast.Pipeline, block: ast.Block, file: File) -> Entity:
        session, before = self.session, self.session.problems.errors
        signature = read_signature(item.params, item.results, file, session.problems)
        defaults = read_defaults(item.params, signature.params, file, session)
        kind = "pipeline" if isinstance(item, ast.Pipeline) else "function"
        if isinstance(item, ast.Pipeline):
            self._require_served(item)
            require_distinct(item.params, session.problems)
            require_distinct(item.results, session.problems)
        else:
            refuse_called(item, session.problems)
        idle = idle_of(item, session.problems) if isinstance(item, ast.Pipeline) else None
        states = read_states(item, block, file, session)
        if not item.results:
            session.problems.error(
                "HR211", f"`{item.name.text}` gives nothing", item.name.span, "no results"
            )
        name = file.prefix + item.name.text
        routine = Routine(
            name,
            kind,
            item.params,
            block,
            signature,
            defaults,
            file,
            item.name.span,
            item,
            states,
            idle,
        )
        unknown = any(f.type == UNKNOWN for f in (*signature.params, *signature.results))
        if unknown or session.problems.errors > before:
            return Mistaken()
        self.routines.append(routine)
        return routine

    def _require_served(self, item: ast.Pipeline) -> None:
        problems = self.session.problems
        if item.stream and item.batch is not None:
            problems.error(
                "HR337",
                "a stream takes one item in a request, so that what it emits has an order",
                item.batch.span,
                help="leave out `batch`: the rows of several requests meet all the same",
            )
        if item.batch is not None and (
            not isinstance(item.batch.value, int) or item.batch.value < 1
        ):
            problems.error(
                "HR230", "the largest batch is a whole number of at least 1", item.batch.span
            )
        if item.deadline is not None and item.deadline.seconds <= 0:
            problems.error("HR230", "a deadline is longer than nothing", item.deadline.span)


def name_of(item: ast.Item) -> ast.Ident | None:
    """Return the name that an item gives, None for schedules and tests."""
    match item:
        case ast.UseModule():
            return item.alias or item.name
        case ast.UseFile():
            return item.alias
        case ast.Schedule() | ast.Test():
            return None
        case _:
            return item.name


def warn_of_unused(file: File, session: Session) -> None:
    """Warn of `use` lines whose name nothing mentions."""
    for item in file.module.items:
        if not isinstance(item, ast.UseModule | ast.UseFile):
            continue
        name = name_of(item)
        if name is None or name.text in file.used:
            continue
        if isinstance(file.entities.get(name.text), UsedFamily | UsedFile):
            session.problems.warning(
                "HR108", f"`{name.text}` is never used", item.span, help="remove the line"
            )


def _type_names(expr: ast.TypeExpr) -> Iterator[ast.TensorTypeExpr]:
    match expr:
        case ast.TensorTypeExpr():
            yield expr
        case ast.ListTypeExpr(item=item) | ast.OptionalTypeExpr(item=item):
            yield from _type_names(item)


def _shown_name(location: str, file: File) -> str:
    """Name a used file as seen from where the main file is."""
    folder = Path(file.source.name).parent
    return location if location.startswith("pkg:") else str(folder / location)


def _loaded(location: str) -> str | None:
    """Say how a file that is no source is read, where its name tells."""
    kind = PurePath(location).suffix
    if kind == ".onnx":
        return f'write `model name = onnx "{location}"`'
    if kind == ".py":
        return f'write `fn name(...) -> (...) = python "{location}:function"`'
    loader = {".txt": "lines", ".npy": "npy", ".json": "json"}.get(kind)
    return f'write `const name = {loader}("{location}")`' if loader is not None else None
