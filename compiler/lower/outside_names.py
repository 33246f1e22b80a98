"""Names in quotes, as in `"input:0" as x: f32[3]`: what callers or a model's file call a thing."""

from collections.abc import Iterable, Sequence

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.source import Span
from .problems import Problems


def outside_names(params: Sequence[ast.Param] | None) -> list[str]:
    """Return what a file calls declared inputs or outputs."""
    return [one.outside for one in params or ()]


def require_distinct(params: Sequence[ast.Param], problems: Problems) -> None:
    """Callers and files must be able to tell inputs apart, and outputs."""
    _require_distinct(((one.outside, (one.called or one.name).span) for one in params), problems)


def require_distinct_pipelines(items: Iterable[ast.Item], problems: Problems) -> None:
    """Callers must be able to tell pipelines apart."""
    pipelines = [item for item in items if isinstance(item, ast.Pipeline)]
    names = (
        (one.name.text, one.name.span)
        if one.called is None
        else (one.called.value, one.called.span)
        for one in pipelines
    )
    _require_distinct(names, problems)


def refuse_called(item: ast.Fn, problems: Problems) -> None:
    """Nobody outside calls a function."""
    for one in (*item.params, *item.results):
        if one.called is not None:
            problems.error(
                "HR119",
                f"`{item.name.text}` is a function: nobody calls it from outside",
                one.called.span,
                help=f"write `{one.name.text}` alone",
            )


def _require_distinct(names: Iterable[tuple[str, Span]], problems: Problems) -> None:
    first: dict[str, Span] = {}
    for name, span in names:
        if name == "":
            problems.error("HR119", "callers need a name, and this is none", span)
        elif name in first:
            problems.error(
                "HR119",
                f"callers know two things as `{name}`",
                span,
                "again here",
                secondary=(Label(first[name], f"`{name}` is first given here"),),
            )
        first.setdefault(name, span)
