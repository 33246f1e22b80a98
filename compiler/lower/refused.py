"""Constructs of the language that this version reads but does not run yet."""

from ...dsl.source import Span
from .body import Body
from .operands import BROKEN, Broken
from .problems import Problems


def refuse(body: Body, construct: str, span: Span) -> Broken:
    """Report a construct that is not served; its value is unknown."""
    report_unserved(construct, span, body.problems)
    return BROKEN


def report_unserved(construct: str, span: Span, problems: Problems) -> None:
    problems.error("HR317", f"`{construct}` is not yet served by this version", span)
