"""Sources and plans by their paths; a path that is not there gets the nearest one that is."""

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ..dsl.nearest import nearest
from ..dsl.read import read_source
from ..dsl.source import Source
from .command import UsageError
from .console import Console

if TYPE_CHECKING:
    from ..compiler import Compiled
    from ..compiler.plan import Plan
    from ..compiler.profile import Profile

SOURCE, PLAN, PROFILE = ".pipe", ".plan", ".profile"
_KINDS: Final = MappingProxyType(
    {".onnx": "onnx", ".xml": "openvino", ".pt2": "torch", ".pt": "torch", ".tflite": "litert"}
)
"""The kind of model that a file mostly is, by how its name ends."""


def find(text: str, *suffixes: str) -> Path:
    """Return a path that exists and ends as wanted; raises UsageError with what was meant."""
    path = Path(text)
    wanted = " or ".join(suffixes)
    if path.is_dir():
        raise UsageError(f"`{text}` is a folder; a {wanted} file is wanted")
    if not path.exists():
        raise UsageError(f"there is no file `{text}`", _meant(path, suffixes))
    if path.suffix not in suffixes:
        raise UsageError(f"`{text}` does not end in {wanted}", _instead(path))
    return path


def _instead(path: Path) -> str | None:
    """Say what to do with a file that is a plan or a model, where a command takes none."""
    if path.suffix == PLAN:
        return "a plan has been compiled: name the source that it was made of"
    kind = _KINDS.get(path.suffix)
    signature = "" if kind == "onnx" else " (...) -> (...)"
    model = f'`model name = {kind} "{path.name}"{signature}`'
    return f"a model is named in a {SOURCE} file: {model}" if kind is not None else None


def _meant(path: Path, suffixes: Sequence[str]) -> str | None:
    folder = path.parent
    if not folder.is_dir():
        return None
    names = [one.name for one in folder.iterdir() if one.suffix in suffixes]
    near = next((name for name in names if Path(name).stem == path.stem), None)
    near = near or nearest(path.name, names)
    if near is not None:
        return f"did you mean `{folder / near}`?"
    here = ", ".join(f"`{name}`" for name in sorted(names)[:5])
    return f"here are {here}" if here else None


def read(path: Path) -> Source:
    """Read a source; raises UsageError when the file cannot be read."""
    try:
        return read_source(path)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror}") from error


def sources(texts: Sequence[str]) -> list[Path]:
    """Return the `.pipe` files named, and all those in and below folders that are named.

    Hidden folders (an environment, a repository's own) are not searched.
    """
    found: dict[Path, None] = {}
    for text in texts:
        path = Path(text)
        if not path.is_dir():
            found[find(text, SOURCE)] = None
            continue
        inside = sorted(
            one
            for one in path.rglob(f"*{SOURCE}")
            if one.is_file()
            and not any(part.startswith(".") for part in one.relative_to(path).parts)
        )
        if not inside:
            raise UsageError(f"there is no {SOURCE} file in `{text}`")
        found |= dict.fromkeys(inside)
    return list(found)


def is_repository(path: Path) -> bool:
    """Whether a folder is a repository of Triton models; raises UsageError for a model of one."""
    if (path / "config.pbtxt").is_file():
        raise UsageError(
            f"`{path}` is a model of a repository, which is checked as a whole",
            f"name its folder: `{path.resolve().parent}`",
        )
    return any(path.glob("*/config.pbtxt")) or any(path.glob("*/configs/*.pbtxt"))


def plan_of(
    text: str,
    schedule: str | None,
    console: Console,
    profile: "Profile | None" = None,
    *,
    again: bool = False,
    fuse: bool = True,
    target: str | None = None,
) -> "Plan":
    """Return the plan in a `.plan` file, or that of a `.pipe` file, compiled with a profile.

    `again` says that its warnings have been told before; without `fuse` every stage of the source
    stays one of its own.
    """
    path = find(text, PLAN, SOURCE)
    if path.suffix == PLAN:
        if schedule is not None:
            raise UsageError(f"`{text}` was compiled with its schedule; --schedule is for sources")
        if profile is not None:
            raise UsageError(f"`{text}` is decided; --profile is for sources")
        if not fuse:
            raise UsageError(f"`{text}` is compiled; --no-fuse is for sources")
        if target is not None:
            raise UsageError(f"`{text}` is compiled for its target; --target is for sources")
        from ..compiler import plan_file

        return plan_file.read(path)
    made = compiled(path, schedule, console, profile, again=again, fuse=fuse, target=target)
    return made.plan


def compiled(
    path: Path,
    schedule: str | None,
    console: Console,
    profile: "Profile | None" = None,
    *,
    again: bool = False,
    fuse: bool = True,
    calibrate: str | None = None,
    tolerance: float | None = None,
    target: str | None = None,
) -> "Compiled":
    """Compile a source, for the machine of the name `target`; the rest is as of `plan_of`. Models
    that its schedule wants in another precision are calibrated with the samples in `calibrate`,
    else with its tests."""
    from ..calibrate import calibrating_of
    from ..compiler import compile_with_warnings
    from ..compiler.target import load_target

    machine = load_target(target) if target is not None else None
    source = read(path)
    calibrating = calibrating_of(source, calibrate, tolerance)
    with console.apart(), console.progress("compile") as progress:
        made = compile_with_warnings(
            source,
            schedule=schedule,
            optimise=fuse,
            progress=progress,
            profile=profile,
            calibrating=calibrating,
            target=machine,
        )
    if made.warnings and not again:
        console.mistakes(made.warnings)
    return made


def profile_of(text: str | None) -> "Profile | None":
    """Return the profile in a file; None when none is given."""
    if text is None:
        return None
    from ..compiler import profile_file

    return profile_file.read(find(text, PROFILE))
