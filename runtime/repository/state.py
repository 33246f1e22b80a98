"""What is told of versions: where each is in its life, and why."""

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """loading ─▶ ready ─▶ draining ─▶ unloaded, or loading ─▶ failed."""

    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"  # what it has begun ends on it, nothing new comes
    UNLOADED = "unloaded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Entry:
    """A pipeline in a version. Where an app has never been loaded its pipelines are not known, and
    `pipeline` is its own name. `hash` is the plan's, empty until it is read; `reason` says why the
    version is not ready."""

    app: str
    pipeline: str
    version: int
    state: State
    reason: str = ""
    hash: str = ""


class LoadFailed(Exception):
    """A version was not loaded, and what was served before still is; the cause is chained.

    `stays` says whether there is such.
    """

    def __init__(
        self, app: str, version: int, cause: BaseException, *, stays: bool = False
    ) -> None:
        self.app, self.version, self.cause, self.stays = app, version, cause, stays
        super().__init__(f"`{app}` version {version} was not loaded: {said(cause)}")


class Unknown(Exception):
    """There is no such app or version in the repository."""


def said(error: BaseException) -> str:
    """Return what an error says, for people."""
    return str(error) or type(error).__name__
