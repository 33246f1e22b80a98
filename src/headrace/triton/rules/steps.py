"""Each step by itself: its model and version are there, its maps name what the model has."""

from collections.abc import Iterator

from ...dsl.diagnostic import Diagnostic, Label
from ..complete import served
from ..ensemble import Path, Step, steps
from ..subject import Subject, listed, meant

_THERE, _MAPS = "HR621", "HR622"


def check(subject: Subject) -> Iterator[Diagnostic]:
    for i, step in enumerate(subject.config.ensemble_scheduling.step):
        path = ("ensemble_scheduling", "step", i)
        if not step.model_name:
            yield subject.error(_THERE, "a step without a model", *path, help="write `model_name`")
        elif subject.others.named(step.model_name) is None:
            yield from _missing(subject, step.model_name, (*path, "model_name"))
        for side in ("input_map", "output_map"):
            if not getattr(step, side):
                yield subject.error(
                    _MAPS,
                    f"a step of `{step.model_name}` without `{side}`",
                    *path,
                    "model_name",
                    help=f'write `{side} {{ key: "of the model" value: "of the ensemble" }}`',
                )
    for step in steps(subject):
        yield from _version(subject, step)
        yield from _names(subject, step)
    if (path := _around(subject)) is not None:
        yield subject.error(
            _THERE,
            "an ensemble that is a step of itself",
            *path,
            said="each of these is a step of the one before: " + " → ".join(_circle(subject)),
        )


def _missing(subject: Subject, name: str, path: Path) -> Iterator[Diagnostic]:
    if name in subject.others.broken:
        return  # its own mistakes are told
    names = [one.name for one in subject.others if one.name != subject.name]
    called = next((one for one in subject.others if one.config.name == name), None)
    yield subject.error(
        _THERE,
        f"there is no model `{name}`",
        *path,
        others=() if called is None else (Label(called.place("name"), "written here"),),
        help=meant(name, names, "there are")
        if called is None
        else f"a model has its folder's name: rename `{called.name}`",
    )


def _version(subject: Subject, step: Step) -> Iterator[Diagnostic]:
    version, model = step.config.model_version, step.model
    there = [one.number for one in model.model.versions]
    kept = served(model.model, model.config)
    if not there or version == -1 or (version == 0 and 0 in there):
        return  # of a model without any version that is told
    if version == 0:
        yield subject.error(
            _THERE,
            f"a step of `{model.name}` without a version",
            *step.path,
            "model_name",
            help="write `model_version: -1` for the newest; left out, it is 0",
        )
    elif version not in there:
        yield subject.error(
            _THERE,
            f"`{model.name}` has no version {version}",
            *step.path,
            "model_version",
            help=f"there are {listed([str(one) for one in there])}; -1 is the newest",
        )
    elif version not in kept:
        yield subject.error(
            _THERE,
            f"version {version} of `{model.name}` is not served",
            *step.path,
            "model_version",
            others=(Label(model.place("version_policy"), "says which are"),),
            help=f"write `version_policy {{ specific {{ versions: [ {version} ] }} }}` there",
        )


def _names(subject: Subject, step: Step) -> Iterator[Diagnostic]:
    model = step.model
    if model.has_tensors:
        for side in ("input", "output"):
            names = [one.name for one in getattr(model.config, side)]
            for name in sorted(getattr(step.config, f"{side}_map")):
                if name not in names:
                    yield subject.error(
                        _MAPS,
                        f"`{model.name}` has no {side} `{name}`",
                        *step.path,
                        f"{side}_map",
                        name,
                        "key",
                        help=meant(name, names, f"its {side}s are"),
                    )
        for i, one in enumerate(model.config.input):
            if one.name not in step.config.input_map and not one.optional:
                yield subject.error(
                    _MAPS,
                    f"nothing is given for the input `{one.name}` of `{model.name}`",
                    *step.path,
                    "model_name",
                    others=(Label(model.place("input", i, "name"), "is not optional"),),
                    help=f'write `input_map {{ key: "{one.name}" value: "..." }}`',
                )


def _around(subject: Subject) -> Path | None:
    """Return the place of a step through which an ensemble comes to itself."""
    for step in steps(subject):
        if subject.name in _reached(step.model):
            return (*step.path, "model_name")
    return None


def _reached(subject: Subject) -> set[str]:
    """Return the names of a model and of all that it is made of."""
    found: dict[str, Subject] = {subject.name: subject}
    waiting = [subject]
    while waiting:
        for step in steps(waiting.pop()):
            if step.model.name not in found:
                found[step.model.name] = step.model
                waiting.append(step.model)
    return set(found)


def _circle(subject: Subject) -> list[str]:
    """Return the names from an ensemble around to it."""
    names = [subject.name]
    here = subject
    while True:
        here = next(one.model for one in steps(here) if subject.name in _reached(one.model))
        names.append(here.name)
        if here is subject or len(names) > len(subject.others.subjects) + 1:
            return names
