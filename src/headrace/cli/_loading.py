"""What `headrace run` loads: files and folders, into a repository."""

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from . import _files, _kept, _serving, _triton
from .command import RunFailure, UsageError
from .console import Console

if TYPE_CHECKING:
    from ..compiler.plan import Plan
    from ..runtime.engine import EngineConfig
    from ..runtime.repository.keeper import Apps, Keeper
    from ..runtime.repository.policy import Policy
    from ..runtime.repository.repository import Repository
    from ..runtime.repository.state import LoadFailed
    from ..runtime.repository.version import Candidate


def repository_of(
    arguments: Namespace,
    settings: "EngineConfig",
    find: "Callable[[], Apps]",
) -> "tuple[Repository, Keeper]":
    """Return a repository that is empty, and what loads into it what is found."""
    from ..runtime.repository.keeper import Keeper
    from ..runtime.repository.policy import All
    from ..runtime.repository.repository import Repository

    policies: dict[str, Policy] = dict(arguments.versions)
    if arguments.model_repository:
        policies = {"": All()}

    def found(app: str) -> "Mapping[int, Candidate]":
        return keeper.candidates(app)

    repository = Repository(
        settings,
        policies=policies,
        find=found,
        configure=_triton.configure(arguments, find) if arguments.model_repository else None,
        takes_files=arguments.allow_load_files,
        takes_code=arguments.allow_load_code,
        strict=bool(arguments.model_repository) and arguments.strict_readiness,
        one_stock=bool(arguments.model_repository),
    )
    shares: dict[str, dict[int, float]] = {}
    for canary in arguments.canary:
        shares.setdefault(canary.app, {})[canary.version] = canary.share
    try:
        for app, given in shares.items():
            repository.weights(app, given)
        for shadow in arguments.shadow:
            repository.shadow(shadow.app, shadow.version, shadow.share)
    except ValueError as error:
        raise UsageError(str(error)) from None
    keeper = Keeper(repository, find)
    return repository, keeper


def finder(arguments: Namespace, console: Console) -> "Callable[[], Apps]":
    """Return what looks which apps there are, and how each is read."""
    if arguments.place is not None:
        return partial(_kept.kept, arguments.place.apps)
    if arguments.model_repository:
        return _triton.finder(arguments, console)
    find = _serving.finder(arguments.targets)
    alone = not any(_serving.is_folder(one) for one in arguments.targets)

    def read(path: Path) -> "Plan":
        schedule = arguments.schedule if path.suffix == _files.SOURCE or alone else None
        return _files.plan_of(str(path), schedule, console)

    def apps() -> "Apps":
        from ..runtime.repository.folder import candidates

        return {app: candidates(versions, read) for app, versions in find().items()}

    return apps


def load(keeper: "Keeper", named: frozenset[str], console: Console, arguments: Namespace) -> None:
    """Load what is there at the start; raises what keeps any of it from being loaded."""
    failures: list[LoadFailed] = []

    def tell(app: str, failure: "LoadFailed | None") -> None:
        if failure is not None and (app in named or not _serving.is_part(failure.cause)):
            failures.append(failure)

    with console.progress("load") as progress:
        keeper.renew(tell, progress)
    if not arguments.model_repository or arguments.exit_on_error:
        refuse(failures, console)
    show(failures, console)


def show(failures: "Sequence[LoadFailed]", console: Console) -> None:
    """Tell what has kept each from being loaded."""
    for failure in failures:
        _serving.show(failure.cause, console)


def refuse(failures: "Sequence[LoadFailed]", console: Console) -> None:
    """Raise what has kept the last from being loaded, once that of the others is told."""
    show(failures[:-1], console)
    if failures:
        _refuse(failures[-1])


def load_named(repository: "Repository", name: str) -> None:
    """Load an app by its name; raises what keeps it from being loaded."""
    from ..runtime.repository.state import LoadFailed, Unknown

    try:
        repository.load(name)
    except LoadFailed as failure:
        _refuse(failure)
    except Unknown as error:
        raise UsageError(str(error)) from None


def _refuse(failure: "LoadFailed") -> NoReturn:
    from ..runtime.protocols.forms import NoForm

    cause = failure.cause
    if isinstance(cause, NoForm):
        raise RunFailure(f"this cannot be served: {cause}", "call it from Python") from cause
    if isinstance(cause, ValueError):
        raise RunFailure(str(cause)) from cause
    raise cause


def renew(keeper: "Keeper", console: Console) -> None:
    """Load what has changed, and say what came of it."""

    def tell(app: str, failure: "LoadFailed | None") -> None:
        if failure is None:
            console.say(f"`{app}` has changed and is served anew")
        elif not _serving.is_part(failure.cause):
            _serving.show(failure.cause, console)
            state = "is served as before" if failure.stays else "is not served"
            console.say(f"`{app}` {state}")

    try:
        keeper.renew(tell)
    except (UsageError, OSError) as error:  # of a folder that changes while it is looked at
        _serving.show(error, console)
