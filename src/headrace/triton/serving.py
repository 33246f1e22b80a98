"""A Triton repository as what a server loads: each model is an app, in the versions that its policy
says, translated and compiled when it is loaded."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from ..compiler import compile_source
from ..compiler.folders import files_in
from ..compiler.plan import Plan
from ..dsl.diagnostic import CompileError, Diagnostic, Severity
from ..dsl.source import Source
from ..runtime.protocols.models import Described
from ..runtime.repository.version import Candidate
from .check import check
from .complete import Defaults, complete, served, without_copies
from .ensemble import settle_decoupled
from .own_completion import OwnCompletions
from .repository import Model, Repository, read
from .subject import Others, Subject
from .translate.described import as_json
from .translate.draft import Surroundings
from .translate.labels import labels
from .translate.members import members
from .translate.program import Program, translate
from .translate.resources import find_clashes
from .translate.schedule import Serving
from .translate.unserved import find_isolated
from .translate.warmups import warmups


@dataclass(frozen=True, slots=True)
class Options:
    """What a tritonserver is told of its repository. `config_name` is that of
    `--model-config-name`."""

    defaults: Defaults = field(default_factory=Defaults)
    serving: Serving = field(default_factory=Serving)
    config_name: str | None = None
    completes: bool = True


def find(
    folders: tuple[Path, ...],
    options: Options,
    warn: Callable[[tuple[Diagnostic, ...]], None],
    own: OwnCompletions,
    over: Path | None = None,
) -> Mapping[str, Mapping[int, Candidate]]:
    """Return what could be loaded, by model and version; models of the folder `over` are in the
    place of those of their names. Raises OSError.

    What is wrong with a model is told when it is read; `warn` is given what is no error.
    """
    repository = read(folders, options.config_name)
    repository = repository if over is None else covered(repository, read(over))
    found = check(repository, options.defaults)
    warn(tuple(one for one in found if one.severity is not Severity.ERROR))
    subjects = subjects_of(repository, options, own)
    if options.serving.in_process:
        warn(tuple(find_isolated(subjects)))
    errors = [*(one for one in found if one.severity is Severity.ERROR), *own.mistakes]
    if options.serving.resources is not None:
        errors += find_clashes(subjects)
    around = Surroundings(Others(subjects), folders[0], options.serving)
    known = {one.model.folder: one for one in subjects}
    return {
        model.name: _candidates(model, known.get(model.folder), around, errors)
        for model in repository.models
    }


def covered(repository: Repository, over: Repository) -> Repository:
    """Return a repository with the models of another in the place of those of their names."""
    names = {one.name for one in over.models}
    models = [*over.models, *(one for one in repository.models if one.name not in names)]
    return replace(repository, models=tuple(sorted(models, key=lambda one: one.name)))


def subjects_of(
    repository: Repository, options: Options, own: OwnCompletions
) -> tuple[Subject, ...]:
    """Return the models whose configurations can be read, completed, each seeing the others."""
    own.mistakes.clear()
    others = Others()
    good = [one for one in repository.models if one.config.good]
    configs = [(one, without_copies(complete(one, options.defaults))) for one in good]
    if options.completes:
        configs = [(one, own.complete(one, config)) for one, config in configs]
    others.subjects = tuple(Subject(one, config, others) for one, config in configs)
    settle_decoupled(others)
    return others.subjects


def _candidates(
    model: Model, subject: Subject | None, around: Surroundings, errors: list[Diagnostic]
) -> Mapping[int, Candidate]:
    mistakes = [one for one in errors if one.primary.span.source == model.config.source]
    if subject is None or mistakes:
        numbers = [one.number for one in model.versions] or [1]
        return {numbers[-1]: Candidate(lambda: _refuse(mistakes))}
    return {number: _candidate(subject, number, around) for number in served(model, subject.config)}


def _candidate(subject: Subject, version: int, around: Surroundings) -> Candidate:
    @cache
    def program() -> Program:
        return translate(subject, version, around)

    return Candidate(
        lambda: plan_of(program(), around),
        _stamp(subject),
        lambda: {subject.name: described(program())},
        tuple(one.name for one in members(subject)[1:]),
    )


def plan_of(program: Program, around: Surroundings) -> Plan:
    """Compile what was translated; raises CompileError."""
    name = f"{program.subject.name}.pipe"
    return compile_source(Source(name, program.text, around.folder / name))


def described(program: Program) -> Described:
    """Return what clients are told of a model, and of which models it is made."""
    subject = program.subject
    runs = tuple(warmups(subject))
    config = as_json(subject.config)
    return Described(config, labels(subject), runs, program.models, program.nested)


def _refuse(mistakes: list[Diagnostic]) -> Plan:
    raise CompileError(mistakes)


def _stamp(subject: Subject) -> Hashable:
    """Return what tells whether a model, or what it is made of, is another: its files and
    configurations."""
    made_of = members(subject)
    files = sorted({file for one in made_of for file in files_in(one.model.folder)})
    known = [(str(file), file.stat()) for file in files]
    return (
        *((name, one.st_ino, one.st_size, one.st_mtime_ns) for name, one in known),
        *(one.config.SerializeToString(deterministic=True) for one in made_of),
    )
