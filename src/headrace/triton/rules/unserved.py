"""What a tritonserver would do and headrace does not: such a model is not loaded."""

from collections.abc import Iterator

from ...dsl.diagnostic import Diagnostic
from ..subject import Subject
from ..translate.unserved import find_unserved


def check(subject: Subject) -> Iterator[Diagnostic]:
    yield from find_unserved(subject)
