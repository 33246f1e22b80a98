"""Where `emit` may not stand, and what is said of one that stands there."""

from dataclasses import replace
from functools import partial

from ...dsl import ast
from .body import Body


def refuse_emit(body: Body, statement: ast.Emit, *, why: str, help: str) -> None:
    """Report an `emit` where there can be none; what it mentions counts as used."""
    for binding in statement.fields:
        body.evaluate(binding.value)
    if statement.when is not None:
        body.evaluate(statement.when)
    body.problems.error("HR336", why, statement.span, help=help)


not_a_stream = partial(
    refuse_emit,
    why="only a pipeline that is a stream emits",
    help="declare what it emits: `-> stream (...)`",
)


def no_emit_in_for(body: Body) -> Body:
    """Return the body of a `for`, whose items run together: nothing says which emits first."""
    return replace(
        body,
        emit_with=partial(
            refuse_emit,
            why="the items of a `for` run together, so that what they emit has no order",
            help="yield it, and emit the list that the `for` gives; or take a `loop`",
        ),
    )


def no_emit_under_try(body: Body) -> Body:
    """Return the body of a `try`: what has been sent cannot be taken back when it fails."""
    return replace(
        body,
        emit_with=partial(
            refuse_emit,
            why="what is emitted under `try` could not be taken back",
            help="emit what the `try` gives",
        ),
    )
