"""Folders and files: versions, the files of models, labels; the name is the folder's."""

from collections.abc import Iterator
from pathlib import Path

from ...dsl.diagnostic import Diagnostic
from ..complete import model_file, served
from ..subject import Subject, listed


def check(subject: Subject) -> Iterator[Diagnostic]:
    yield from _name(subject)
    yield from _versions(subject)
    yield from _files(subject)
    for i, output in enumerate(subject.config.output):
        if output.label_filename and not (subject.model.folder / output.label_filename).is_file():
            yield subject.error(
                "HR608",
                f"there is no file of labels `{output.label_filename}`",
                "output",
                i,
                "label_filename",
                said=f"looked for in `{subject.model.folder}`",
            )


def _name(subject: Subject) -> Iterator[Diagnostic]:
    if subject.config.name != subject.name:
        yield subject.error(
            "HR607",
            f"`{subject.config.name}` is in the folder `{subject.name}`",
            "name",
            said="a model has its folder's name",
            help=f'rename the folder, or write `name: "{subject.name}"`; the line may be left out',
        )


def _versions(subject: Subject) -> Iterator[Diagnostic]:
    model, policy = subject.model, subject.config.version_policy
    for folder in model.passed_over:
        yield subject.warning(
            "HR605",
            f"`{folder.name}` in `{model.folder}` is no version",
            said="",
            help="a version's folder has a whole number for its name, without zeros before it",
        )
    if not model.versions:
        yield subject.error(
            "HR605",
            f"`{subject.name}` has no version",
            help=f"make a folder `{model.folder / '1'}`"
            + (", empty for an ensemble" if subject.is_ensemble else " with the model in it"),
        )
        return
    numbers = [one.number for one in model.versions]
    for i, version in enumerate(policy.specific.versions):
        if version not in numbers:
            others = served(model, subject.config)
            yield (subject.warning if others else subject.error)(
                "HR605",
                f"`{subject.name}` has no version {version}",
                "version_policy",
                "specific",
                "versions",
                i,
                said=f"there are {listed([str(one) for one in numbers])}",
            )
    if policy.HasField("latest") and policy.latest.num_versions == 0:
        yield subject.error(
            "HR605",
            f"the policy of `{subject.name}` serves no version",
            "version_policy",
            "latest",
            help="write how many of the newest are served: `latest { num_versions: 1 }`",
        )


def _files(subject: Subject) -> Iterator[Diagnostic]:
    """Look for the model's file in each version that is served."""
    if subject.is_ensemble:
        return
    name = subject.config.default_model_filename
    if Path(name).is_absolute() or ".." in Path(name).parts:
        yield subject.error(
            "HR606",
            f"`{name}` is in no folder of a version",
            "default_model_filename",
            help="put the file into the folder, and write its name",
        )
        return
    for version in served(subject.model, subject.config):
        path = model_file(subject.model, subject.config, version)
        if path is not None and not path.exists():
            there = _shown(path.parent)
            yield subject.error(
                "HR606",
                f"version {version} of `{subject.name}` has no file `{path.name}`",
                "default_model_filename",
                said=f"looked for in `{path.parent}`",
                help=f"there are {listed(there)}; `default_model_filename` names another"
                if there
                else "put the model there",
            )


def _shown(folder: Path) -> list[str]:
    """Return what is in a folder, without what only holds its place, as `.gitkeep`."""
    names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    return sorted(name for name in names if not name.startswith("."))
