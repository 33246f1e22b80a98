"""The names of classes that a model's files tell."""

from collections.abc import Mapping

from ..subject import Subject
from .draft import refuse


def labels(subject: Subject) -> Mapping[str, tuple[str, ...]]:
    """Return the names of classes by output; raises CompileError where a file cannot be read."""
    found: dict[str, tuple[str, ...]] = {}
    for number, one in enumerate(subject.config.output):
        if not one.label_filename:
            continue
        path = subject.model.folder / one.label_filename
        try:
            found[one.name] = tuple(line.strip() for line in path.read_text("utf-8").splitlines())
        except (OSError, UnicodeDecodeError) as error:
            raise refuse(
                subject,
                f"`{one.label_filename}` cannot be read: {error}",
                *("output", number, "label_filename"),
                help="put a line of text for each class into it",
            ) from None
    return found
