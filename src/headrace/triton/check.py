"""All that is wrong with a repository, at once and without running anything.

What a tritonserver says when it loads a model, or at a request, and what it never says: each with
its place in the text. Rules are files in `rules/`; each looks at one model at a time and may
look up others. A model whose text is wrong is told of that alone, and nobody is told of it again.
"""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from ..dsl.diagnostic import Diagnostic, Label, Severity
from . import rules
from .complete import Defaults, complete
from .ensemble import settle_decoupled
from .repository import Model, Repository
from .subject import Others, Rule, Subject


def check(repository: Repository, defaults: Defaults | None = None) -> tuple[Diagnostic, ...]:
    """Return all mistakes and warnings, model by model in the order of their names."""
    found: list[Diagnostic] = []
    checks = load_rules()
    completed = {one.model.folder: one for one in subjects(repository, defaults)}
    for model in repository.models:
        found += model.config.mistakes
        found += _twice(model, repository)
        subject = completed.get(model.folder)
        if subject is not None:
            said = [diagnostic for rule in checks for diagnostic in rule(subject)]
            found += sorted(said, key=lambda one: one.primary.span.start)
    return tuple(found)


def failing(repository: Repository, found: tuple[Diagnostic, ...]) -> frozenset[str]:
    """Return the names of models that cannot be loaded: of those with errors, and of ensembles
    that have such a model in them."""
    places = {d.primary.span.source for d in found if d.severity is Severity.ERROR}
    names = {one.name for one in repository.models if one.config.source in places}
    more = set(names)
    while more:
        more = {
            one.name
            for one in repository.models
            if one.name not in names
            and any(step.model_name in names for step in one.message.ensemble_scheduling.step)
        }
        names |= more
    return frozenset(names)


def load_rules() -> tuple[Rule, ...]:
    """Return the rule of each file in `rules/`, in the order of their names."""
    names = sorted(each.name for each in iter_modules(rules.__path__))
    return tuple(import_module(f"{rules.__name__}.{name}").check for name in names)


def subjects(repository: Repository, defaults: Defaults | None = None) -> Others:
    """Return the models whose texts are good, completed, each of which sees all of them.

    An ensemble is decoupled when a member is, which only its repository tells.
    """
    good = [one for one in repository.models if one.config.good]
    others = Others(broken=frozenset({one.name for one in repository.models if one not in good}))
    others.subjects = tuple(Subject(one, complete(one, defaults), others) for one in good)
    settle_decoupled(others)
    return others


def _twice(model: Model, repository: Repository) -> Iterator[Diagnostic]:
    same = [one for one in repository.models if one.name == model.name]
    if len(same) > 1 and same[0] is model:
        yield Diagnostic(
            "HR607",
            f"the model `{model.name}` is in {len(same)} repositories",
            Label(model.config.place("name"), "here"),
            tuple(Label(one.config.place("name"), "and here") for one in same[1:]),
            help="a server with both has neither: rename one, or give the server one repository",
        )
