"""How each kind of syntax mistake is recognised and what is said of it.

A rule looks at a Situation and returns None when it does not know the mistake. Only `unexpected`,
the last one, knows them all.
"""

from collections.abc import Callable
from typing import TypeAlias

from .diagnostic import Diagnostic, Label
from .nearest import nearest
from .situation import (
    COMPARISONS,
    RESERVED,
    STATEMENT_WORDS,
    VALUE_ENDS,
    VALUE_STARTS,
    Situation,
    describe,
)
from .source import Span
from .token import CONTEXT_WORDS, RESERVED_WORDS

Rule: TypeAlias = Callable[[Situation], Diagnostic | None]

FOREIGN_WORDS = {
    **dict.fromkeys(("def", "func", "function", "fun"), "write `fn`"),
    **dict.fromkeys(("import", "from", "include", "require"), "write `use`"),
    **dict.fromkeys(("let", "var", "val", "mut"), "a name needs no word before it: `name = ...`"),
    **dict.fromkeys(("elif", "elsif", "elseif"), "write `else if`"),
    **dict.fromkeys(("while", "repeat", "until"), "write `loop (...) max N { ... }`"),
    **dict.fromkeys(("switch", "case"), "write `match x { ... }`"),
    **dict.fromkeys(("except", "catch"), "write `try ... else ...`"),
}


def _error(
    at: Situation, number: int, message: str, label: str = "", help: str | None = None
) -> Diagnostic:
    return Diagnostic(f"HR{number:03}", message, Label(at.place, label), help=help)


# ---- rules


def reserved_name(at: Situation) -> Diagnostic | None:
    """`next = 3`, `f(type = 3)`, `fn list(...)`."""
    word, span = at.text, at.place
    if at.found == "EQUAL" and at.before.type in RESERVED and at.index > 1:
        word, span = at.before.text, at.before.span
    elif (
        at.found not in RESERVED
        or "NAME" not in at.accepts
        or (
            at.wants_value
            and at.following not in ("EQUAL", "COMMA", "COLON", "RPAR", "RSQB", "DOT")
        )
    ):
        return None
    return Diagnostic(
        "HR012",
        f"`{word}` is a word of the language and cannot be a name",
        Label(span),
        help=f"take another name, such as `{word}_`",
    )


def foreign_word(at: Situation) -> Diagnostic | None:
    """`let x = 3`, `} elif c {`, `retrun x = 3`."""
    word, span = at.text, at.place
    if at.before.type != "RBRACE" or word not in FOREIGN_WORDS:
        if not _starts_statement(at):
            return None
        word, span = at.before.text, at.before.span
    help = FOREIGN_WORDS.get(word)
    near = nearest(word, (kind.lower() for kind in STATEMENT_WORDS))
    if help is None and near is not None:
        help = f"did you mean `{near}`?"
    if help is None:
        return None
    return Diagnostic("HR026", f"`{word}` is not a word of the language", Label(span), help=help)


def _starts_statement(at: Situation) -> bool:
    """Whether the token before is all there is of its statement, and a value follows it."""
    in_code = at.opener == "LBRACE" and at.tokens[0].type in ("PIPELINE", "FN")
    return in_code and len(at.statement()) == 1 and at.found in VALUE_STARTS


def mistyped_word(at: Situation) -> Diagnostic | None:
    """`pipeline p(...) -> (...) dedline 2s`, `test "..." for p { giben x = 3 }`."""
    if at.found != "NAME" or "NAME" in at.accepts:
        return None
    words = [w for w in (*RESERVED_WORDS, *CONTEXT_WORDS) if w.upper() in at.accepts]
    near = nearest(at.text, words)
    if near is None:
        return None
    return _error(at, 26, f"`{at.text}` means nothing here", help=f"did you mean `{near}`?")


def wrong_equals(at: Situation) -> Diagnostic | None:
    """`if a = b {`, `f(x) = 3`."""
    if at.found != "EQUAL" or "EQEQ" not in at.accepts:
        return None
    words = {token.type for token in at.statement()}
    if words & {"IF", "WHEN", "MATCH", "EXPECT", "AND", "OR", "NOT", "STOP"}:
        return _error(at, 17, "`=` gives a name a value, `==` compares", help="write `==`")
    return _error(at, 18, "only a name can be given a value", "what is on the left is not a name")


def double_equals(at: Situation) -> Diagnostic | None:
    """`type A == f32`, `a, b == f(x)`."""
    if at.found != "EQEQ" or "EQUAL" not in at.accepts:
        return None
    return _error(at, 18, "`==` compares; a value is given with one `=`", help="write `=`")


def type_for_value(at: Situation) -> Diagnostic | None:
    """`return y: x`, `f(x: 3)`."""
    if at.found != "COLON" or "EQUAL" not in at.accepts or at.before.type != "NAME":
        return None
    help = f"write `{at.before.text} = ...`"
    if len(at.statement()) == 1:
        help = f"the type follows from the value: {help}"  # `x: f32 = 3`
    return _error(at, 18, "`:` is for types; a value is given with `=`", help=help)


def chained_comparison(at: Situation) -> Diagnostic | None:
    """`0 < x < 1`."""
    if at.found not in COMPARISONS or not at.accepts >= {"PLUS", "AND"}:
        return None
    return _error(
        at,
        21,
        "comparisons do not chain",
        "a second comparison",
        "compare twice and join: `0 < x and x < 1`",
    )


def stray_word(at: Situation) -> Diagnostic | None:
    """`else` without `if`; `a = return x`."""
    if at.found == "IF" and "WHEN" in at.accepts:
        return _error(
            at, 28, "a condition at the end of a line follows `when`", help="write `when`"
        )
    edge = VALUE_ENDS | {"LBRACE", "NEWLINE"}
    if at.found in ("ELSE", "WHEN", "WITHIN", "IN") and at.before.type in edge:
        owner = {"ELSE": "if` or `try", "WITHIN": "try", "IN": "for"}.get(at.found)
        owner = owner or "return`, `yield`, `emit` or `stop"
        return _error(at, 28, f"this `{at.text}` belongs to nothing", help=f"it follows `{owner}`")
    if at.found == "IDLE" or (at.text == "idle" and "PER" in at.accepts):
        return _error(
            at, 28, "this `idle` belongs to nothing", help="write `per sequence idle 30s`"
        )
    if at.found in STATEMENT_WORDS and at.wants_value:
        return _error(at, 28, f"`{at.text}` starts a statement and gives no value")
    return None


def results_without_brackets(at: Situation) -> Diagnostic | None:
    """`-> f32`, `-> text: string`."""
    if at.before.type not in ("ARROW", "STREAM") or "LPAR" not in at.accepts:
        return None
    return _error(
        at,
        27,
        "results have names and stand in brackets",
        help="write `-> (name: type)`",
    )


def missing_arrow(at: Situation) -> Diagnostic | None:
    """`pipeline p(x: f32) {`."""
    if "ARROW" not in at.accepts:
        return None
    if at.before.type != "RPAR":
        return None
    return _error(at, 16, "`->` and the results are missing", help="write `(...) -> (name: type)`")


def missing_type(at: Situation) -> Diagnostic | None:
    """`fn f(x) -> ...`, `const a = 3`, `x: = 3`."""
    if "LIST" in at.accepts:
        return _error(at, 24, "a type is missing", "expected a type such as `f32[3, H]`")
    if "COLON" not in at.accepts or at.opener == "LSQB" or at.found not in _AFTER_PARAMETER:
        return None
    name = at.before.text
    return Diagnostic(
        "HR024",
        f"`{name}` has no type",
        Label(at.before.span),
        help=f"write `{name}: f32`, or whatever type it has",
    )


_AFTER_PARAMETER = ("COMMA", "RPAR", "EQUAL", "NEWLINE", "$END")


def missing_brace(at: Situation) -> Diagnostic | None:
    """`if c x`, `for b in box:`, `pipeline p(...) -> (...)` with nothing after it."""
    if "LBRACE" not in at.accepts or at.wants_value or at.before.type in ("TRY", "ELSE"):
        return None
    help = "blocks are written in braces: `{ ... }`"
    if at.accepts >= {"EQUAL", "LBRACE"}:
        help = 'a function has a body: `{ ... }` or `= python "file.py:name"`'
        if at.tokens[0].type == "SCHEDULE":
            return _error(at, 19, "a setting has a value", help=f"write `{at.before.text} = ...`")
    label = "the line ends without it" if at.at_end else f"expected `{{` before {at.shown}"
    return _error(at, 15, "`{` is missing", label, help)


def missing_comma(at: Situation) -> Diagnostic | None:
    """`f(a b)`, `{ max = 3 wait = 1ms }`."""
    if "COMMA" not in at.accepts or at.before.type not in VALUE_ENDS:
        return None
    if at.found not in VALUE_STARTS and at.found not in RESERVED:
        return None
    if at.opener is None or (at.opener == "LBRACE" and "NEWLINE" not in at.accepts):
        return None
    if at.opener == "LBRACE" and len(at.statement()) == 1:
        return None  # `a b`: more likely two things than two targets
    between = Span(at.before.source, at.before.end, at.before.end)
    return Diagnostic(
        "HR014",
        f"a comma is missing between `{at.before.text}` and `{at.text}`",
        Label(between, "expected `,`"),
    )


def second_statement(at: Situation) -> Diagnostic | None:
    """`a = 1 b = 2`, `given a = 1, b = 2`, `use image use text`."""
    if not at.accepts & {"NEWLINE", "$END"} or at.before.type not in VALUE_ENDS | RESERVED:
        return None
    if at.found == "COMMA" and at.opener == "LBRACE" and at.following != "NEWLINE":
        word = at.statement()[0].text
        help = f"start a new line; each `{word}` has its own" if word == "given" else None
        message = "a second statement behind a comma"
        return _error(at, 13, message, "expected the end of the line", help or "start a new line")
    if at.found not in VALUE_STARTS | RESERVED | {"UNDERSCORE"}:
        return None
    what = "statement" if at.opener == "LBRACE" else "item"
    help = "start a new line"
    if at.found == "IF" and at.before.type in VALUE_ENDS:
        help = "write `if c { a } else { b }`"  # `a if c else b`
    return _error(at, 13, f"a second {what} on one line", "expected the end of the line", help)


def missing_value(at: Situation) -> Diagnostic | None:
    """`a = `, `f(, b)`, `return`."""
    if not at.wants_value or at.found in VALUE_STARTS:
        return None
    label = "the line ends here" if at.at_end else f"expected a value before {at.shown}"
    if at.found == "UNDERSCORE":
        label = "`_` drops a value, it has none"
    return _error(at, 19, "a value is missing", label)


def half_number(at: Situation) -> Diagnostic | None:
    """`.5`, `5.`."""
    if at.found == "DOT" and at.following == "NUMBER" and at.wants_value:
        return _error(at, 5, "a number starts with a digit", help="write `0` before the point")
    if at.before.type == "DOT" and at.tokens[max(at.index - 2, 0)].type == "NUMBER":
        return _error(at, 5, "a number ends with a digit", help="write `0` after the point")
    return None


def missing_name(at: Situation) -> Diagnostic | None:
    """`pipeline (x: f32)`, `x.`, `f32[-1]`."""
    if "NAME" not in at.accepts or at.wants_value:
        return None
    if "NUMBER" in at.accepts:
        help = "a dimension is a number, a name, `_`, or arithmetic on numbers and names"
        return _error(at, 25, "a dimension is missing", f"found {at.shown}", help)
    return _error(at, 25, "a name is missing", _found(at))


def missing_part(at: Situation) -> Diagnostic | None:
    """Only one thing could stand here: `for x xs {`, `use "a.pipe"`, `loop (...) {`."""
    parts = at.accepts - {"COMMA", "DOT"}
    if len(parts) != 1 or parts & {"$END", "NEWLINE"}:
        return None
    help = _HELP.get(min(parts))
    if at.found == "COMMA" and "RPAR" in parts:
        help = "there are no tuples; a list is written `[a, b]`"
    if at.found == "LPAR" and "STRING" in parts:  # `onnx("a.onnx")`
        help = f'it stands there without brackets: `{at.before.text} "..."`'
    return _error(at, 28, f"{describe(frozenset(parts))} is missing", _found(at), help)


def _found(at: Situation) -> str:
    return "the line ends here" if at.at_end else f"found {at.shown}"


_HELP = {
    "DURATION": "durations look like `150ms`, `2s` or `1m`",
    "STRING": "write it in double quotes",
    "AS": 'write `use "file.pipe" as name`',
    "LANGLE": "a list is written `list<T>`, or `list<T, 100>` of at most so many",
    "MAX": "a loop has a bound: `loop (...) max 64 { ... }`",
}


def unexpected(at: Situation) -> Diagnostic:
    """Say what was found and what could stand here."""
    help = "write `if c { a } else { b }`" if at.found == "QMARK" else None
    found = "the line ends too early" if at.at_end else f"{at.shown} makes no sense here"
    return _error(at, 29, found, f"expected {describe(at.accepts)}", help)


RULES: tuple[Rule, ...] = (
    half_number,
    reserved_name,
    foreign_word,
    mistyped_word,
    wrong_equals,
    double_equals,
    type_for_value,
    chained_comparison,
    results_without_brackets,
    missing_arrow,
    missing_type,
    stray_word,
    missing_brace,
    missing_comma,
    second_statement,
    missing_value,
    missing_name,
    missing_part,
    unexpected,
)
