"""A Triton repository as an app on disk: sources, the files that they name, and tests.

```
OUT/NAME.pipe                 a model that has version 1 alone
OUT/NAME/3/model.pipe         a model in a version, where it has others
OUT/models/NAME/1/model.onnx  files, where they were in the repository
OUT/data/NAME_INPUT.npy       what models are warmed up with, for the tests
```

It is what `headrace run --model-repository` serves, written down: so both answer the same.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiler import check
from ..compiler.folders import files_in
from ..dsl.diagnostic import CompileError, Diagnostic, Severity
from ..dsl.literals import write_string
from ..dsl.source import Source
from ..stdlib.dtypes import from_numpy
from .complete import PYTHON, model_file, served
from .own_completion import OwnCompletions
from .repository import Repository
from .serving import Options, subjects_of
from .subject import Others, Subject
from .translate.draft import Surroundings
from .translate.program import Program, translate, translate_script
from .translate.scripts.program import asks
from .translate.scripts.values import Kept
from .translate.unserved import find_isolated
from .translate.warmups import warmups

_MODELS, _DATA, _PIPE = "models", "data", ".pipe"


@dataclass(frozen=True, slots=True)
class Imported:
    """What was written; `notes` are for people, `mistakes` of models that were not."""

    sources: tuple[Path, ...]
    notes: tuple[str, ...]
    mistakes: tuple[Diagnostic, ...]


def write(repository: Repository, out: Path, options: Options) -> Imported:
    """Write all models that can be; raises OSError."""
    own = OwnCompletions()
    subjects = subjects_of(repository, options, own)
    sources, notes, mistakes = list[Path](), list[str](), list[Diagnostic]()
    for subject in subjects:
        versions = served(subject.model, subject.config)
        for version in versions:
            alone = versions == (1,)
            path = out / f"{subject.name}{_PIPE}"
            if not alone:
                path = out / subject.name / str(version) / f"model{_PIPE}"
            around = Surroundings(
                Others(subjects), path.parent, options.serving, _placed(subjects, out)
            )
            try:
                program = _program(subject, version, around, notes)
                tests = list(_tests(program, out, path.parent))
            except CompileError as error:
                mistakes += error.diagnostics
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join([program.text, *tests]), "utf-8")
            _copy(program, around)
            sources.append(path)
            notes += _notes(subject, out)
    if options.serving.in_process:
        notes += [one.message for one in find_isolated(subjects)]
    return Imported(tuple(sources), tuple(dict.fromkeys(notes)), (*mistakes, *own.mistakes))


def _program(subject: Subject, version: int, around: Surroundings, notes: list[str]) -> Program:
    """Return a model as a source: of a script that only calls others, where it can be, what it
    does, and else a note why it stays a Python stage."""
    file = model_file(subject.model, subject.config, version)
    if subject.config.backend == PYTHON and file is not None and asks(source := _read(file)):
        name = f"{subject.name}: {file.name}"
        try:
            program = translate_script(subject, version, source, around)
            _check(program, around)
        except Kept as kept:
            notes.append(f"{name} stays a Python stage: line {kept.line}: {kept.reason}")
        except CompileError as error:
            (first, *_) = error.diagnostics
            said = first.primary.span.text.partition("\n")[0]
            notes.append(f"{name} stays a Python stage: `{said}`: {first.message}")
        else:
            notes.append(f"{name} is written in the language")
            return program
    return translate(subject, version, around)


def _check(program: Program, around: Surroundings) -> None:
    name = f"{program.subject.name}.pipe"
    found = check(Source(name, program.text, around.folder / name))
    if errors := [one for one in found if one.severity is Severity.ERROR]:
        raise CompileError(errors)


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _placed(subjects: tuple[Subject, ...], out: Path) -> Callable[[Path], Path]:
    """Return what says where a file of a model will be."""

    def placed(path: Path) -> Path:
        for one in subjects:
            if path.is_relative_to(one.model.folder):
                return out / _MODELS / one.name / path.relative_to(one.model.folder)
        raise AssertionError(f"{path} is of no model")

    return placed


def _copy(program: Program, around: Surroundings) -> None:
    """Copy the files that a source names with what lies beside them, but other versions."""
    for subject in around.others:
        folder = subject.model.folder
        named = {one.parent for one in program.files if one.is_relative_to(folder)}
        python = subject.config.backend == PYTHON and bool(named)
        if not named and subject is not program.subject:
            continue
        labels = {one.label_filename for one in subject.config.output} - {""}
        for file in files_in(folder):
            inside = file.relative_to(folder)
            of_version = any(file.is_relative_to(one) for one in named)
            beside = python and not inside.parts[0].isdigit() and inside.parts[0] != "warmup"
            if "__pycache__" in inside.parts or inside.name == ".keep":
                continue
            if of_version or beside or inside.as_posix() in labels:
                to = around.placed(file)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, to)


def _tests(program: Program, out: Path, folder: Path) -> Iterator[str]:
    """Yield a test for each request that the model is warmed up with."""
    subject = program.subject
    if not program.stage:
        return  # there is none that each request runs
    names = [one.name or f"warm-up {i}" for i, one in enumerate(subject.config.model_warmup)]
    config = replace(subject, config=_once(subject.config))
    for number, inputs in enumerate(warmups(config), 1):
        title = names[number - 1]
        rows = max((len(value) for value in inputs.values()), default=1)
        plain = (
            subject.config.max_batch_size == 0 or subject.config.model_transaction_policy.decoupled
        )
        given = [
            f"    given {program.inside[name]} = "
            + _value(value, name, program, number, out, folder)
            for name, value in inputs.items()
        ]
        count = "> 0" if program.script else f"== {1 if plain else rows}"
        said = [*given, f"    expect calls({program.stage}) {count}"]
        yield f"test {write_string(title)} for {program.pipeline} {{\n" + "\n".join(said) + "\n}\n"


def _once(config: Any) -> Any:  # Any: a ModelConfig
    """Return a configuration whose warm-ups are run once."""
    copy = type(config)()
    copy.CopyFrom(config)
    for one in copy.model_warmup:
        one.count = 1
    return copy


def _value(
    value: NDArray[Any], name: str, program: Program, number: int, out: Path, folder: Path
) -> str:
    """Return the expression for an input; what is not zero goes into a file."""
    element = from_numpy(value.dtype)
    if element is not None and not value.any():
        return f"zeros([{', '.join(map(str, value.shape))}], {element.value})"
    if value.dtype == object:
        return _texts(value.tolist())
    path = out / _DATA / f"{program.subject.name}_{number}_{program.inside[name]}.npy"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, value)
    return f"npy({write_string(_relative(path, folder))})"


def _texts(value: Any) -> str:  # Any: bytes, or lists of them
    if isinstance(value, list):
        return f"[{', '.join(map(_texts, value))}]"
    return write_string(value.decode("utf-8", "replace"))


def _relative(path: Path, folder: Path) -> str:
    return Surroundings(Others(), folder).locate(path)


def _notes(subject: Subject, out: Path) -> Iterator[str]:
    for one in subject.config.output:
        if one.label_filename:
            path = out / _MODELS / subject.name / one.label_filename
            yield f"classes have names: run with `--labels {subject.name}.{one.name}={path}`"
