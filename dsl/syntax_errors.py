"""What is said of tokens in the wrong place (HR010 to HR029).

`explain` goes through `syntax_rules.RULES` in order: each looks at the token found, the one before
it and the set of tokens that the grammar accepts there; the first that recognises the mistake names
it, and the last rule recognises everything. The rest is said of what lies around the grammar.
"""

from collections.abc import Sequence

from .ast import Assign, Binary, Block, For, Ident, If, Name
from .build_code import GivenTwice, NotWhole, Refused, UnusedValue
from .diagnostic import Diagnostic, Label
from .nearest import nearest
from .situation import STATEMENT_WORDS, VALUE_STARTS, Situation
from .source import Span
from .syntax_rules import FOREIGN_WORDS, RULES
from .token import ITEM_WORDS, Token


def explain(tokens: Sequence[Token], index: int, accepts: set[str]) -> Diagnostic:
    """Return what to say of the token at `index` (the end of the item when past the last)."""
    situation = Situation(tokens, index, frozenset(accepts))
    return next(d for d in (rule(situation) for rule in RULES) if d is not None)


def unknown_item(tokens: Sequence[Token]) -> Diagnostic | None:
    """Recognise tokens at the top of a file that start no item."""
    first = tokens[0]
    if first.text in ITEM_WORDS:
        return None
    following = tokens[1].type if len(tokens) > 1 else "$END"
    words = ", ".join(f"`{word}`" for word in ITEM_WORDS)
    if first.type == "NAME" and following in ("NAME", "STRING", "LPAR"):
        help = FOREIGN_WORDS.get(first.text)
        near = nearest(first.text, ITEM_WORDS)
        if help is None and near is not None:
            help = f"did you mean `{near}`?"
        if help is not None or following != "LPAR":
            return Diagnostic(
                "HR010",
                f"`{first.text}` does not start an item",
                Label(first.span),
                help=help or f"an item starts with {words}",
            )
    if first.type in VALUE_STARTS | STATEMENT_WORDS | {"UNDERSCORE"}:
        return Diagnostic(
            "HR011",
            "a statement outside a pipeline",
            Label(Span(first.source, first.start, first.end), "this is in no block"),
            help="move it into the `{ ... }` of a `pipeline` or `fn`",
        )
    return Diagnostic(
        "HR010",
        f"`{first.text}` does not start an item",
        Label(first.span),
        help=f"an item starts with {words}",
    )


def merge_outside(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Keep the first of several statements outside a pipeline that follow one another."""
    kept: list[Diagnostic] = []
    before = ""
    for diagnostic in diagnostics:
        if diagnostic.code != "HR011" or before != "HR011":
            kept.append(diagnostic)
        before = diagnostic.code
    return kept


def too_long(span: Span) -> Diagnostic:
    return Diagnostic(
        "HR009",
        "this is nested too deep, or is too long a chain",
        Label(span, "too deep from here on"),
        help="give parts of it a name",
    )


def _given_inside(block: Block) -> str | None:
    """Return the name that the last line of a block gives a value to."""
    last = block.statements[-1] if block.statements else None
    if not isinstance(last, Assign) or not isinstance(last.targets[0], Ident):
        return None
    return last.targets[0].text


def refuse(refused: Refused) -> Diagnostic:
    """Say why parts that fit the grammar mean nothing."""
    match refused:
        case UnusedValue(value=value):
            help = "give it a name: `name = ...`"
            if isinstance(value, Binary) and value.op == "==" and isinstance(value.left, Name):
                help = f"a name is given a value with one `=`: `{value.left.text} = ...`"
            elif isinstance(value, If) and (name := _given_inside(value.then)) is not None:
                help = (
                    f"a name is given a value outside: `{name} = if ... {{ ... }} else {{ ... }}`"
                )
            elif isinstance(value, For) and (name := _given_inside(value.body)) is not None:
                help = f"a name is given a value outside: `{name} = for ... {{ yield ... }}`"
            return Diagnostic(
                "HR020",
                "this value is not used",
                Label(refused.span),
                notes=("only the last line of a block may be a value: the value of the block",),
                help=help,
            )
        case NotWhole(what=what):
            return Diagnostic("HR005", f"{what} is a whole number", Label(refused.span))
        case GivenTwice(first=first, what=what):
            return Diagnostic(
                "HR022",
                f"`{what}` is given twice",
                Label(refused.span, "given again here"),
                (Label(first, "first given here"),),
            )
        case _:
            raise AssertionError(refused)
