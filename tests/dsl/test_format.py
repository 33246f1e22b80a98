"""The canonical form: what it looks like, and that nothing is lost on the way to it."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from headrace.dsl import ast
from headrace.dsl.format import format_module
from headrace.dsl.parse import parse
from headrace.dsl.source import Source, Span

T = TypeVar("T")
SPAN = Span(Source("drawn.pipe", ""), 0, 0)


def node(
    kind: Callable[..., T], *parts: SearchStrategy[Any], **named: SearchStrategy[Any]
) -> SearchStrategy[T]:
    """Draw a node; Any: each kind of node has fields of its own."""
    return st.builds(kind, *parts, **named, span=st.just(SPAN))


def some(strategy: SearchStrategy[T], least: int = 0, most: int = 3):
    return st.lists(strategy, min_size=least, max_size=most).map(tuple)


NAMES = st.sampled_from(
    ["a", "b2", "_x", "a_rather_long_name_of_a_value", "max", "batch", "stub", "axis", "with", "on"]
)
IDENT = node(ast.Ident, NAMES)
DOTTED = st.one_of(IDENT, node(ast.Ident, st.sampled_from(["image.resize", "a.b.c"])))
NUMBER = st.one_of(
    st.integers(0, 2**64 - 1).map(lambda n: ast.Number(n, str(n), span=SPAN)),
    st.floats(0, 1e9).map(lambda x: ast.Number(x, repr(x), span=SPAN)),
    st.sampled_from([(31, "0x1f"), (1000, "1_000"), (0.5, "0.50"), (1e-3, "1e-3")]).map(
        lambda pair: ast.Number(*pair, span=SPAN)
    ),
)
NEGATIVE = st.integers(1, 99).map(lambda n: ast.Number(-n, f"-{n}", span=SPAN))
STRING = node(ast.String, st.text(max_size=8))
BOOL = node(ast.Bool, st.booleans())
DURATION = st.sampled_from([(0.15, "150ms"), (2.0, "2s"), (1e-6, "1us")]).map(
    lambda pair: ast.Duration(*pair, span=SPAN)
)
SIZE = st.sampled_from([(64 << 20, "64MiB"), (1024, "1KiB")]).map(
    lambda pair: ast.Size(*pair, span=SPAN)
)
TARGETS = some(st.one_of(IDENT, node(ast.Wildcard)), 1)
LEAF = st.one_of(node(ast.Name, NAMES), NUMBER, STRING, BOOL, DURATION, SIZE)
DIM: SearchStrategy[Any] = st.recursive(
    st.one_of(node(ast.DimInt, st.integers(0, 99)), node(ast.DimName, NAMES), node(ast.DimUnknown)),
    lambda inner: node(ast.DimBinary, st.sampled_from("+-*/%"), inner, inner),
    max_leaves=4,
)
TYPE: SearchStrategy[Any] = st.recursive(
    node(ast.TensorTypeExpr, st.sampled_from(["f32", "string", "common.Quad"]))
    | node(ast.TensorTypeExpr, st.just("f32"), some(DIM, 1)),
    lambda inner: (
        node(ast.ListTypeExpr, inner, st.none() | DIM)
        | node(ast.OptionalTypeExpr, inner.filter(lambda t: not _is_optional(t)))
    ),
    max_leaves=3,
)


def _is_optional(kind: object) -> bool:
    return isinstance(kind, ast.OptionalTypeExpr)


def bindings(value: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return some(node(ast.Binding, st.none() | IDENT, value), 1)


def blocks(value: SearchStrategy[Any]) -> SearchStrategy[Any]:
    statement = st.one_of(
        node(ast.Assign, TARGETS, value),
        node(ast.Yield, bindings(value), st.none() | value),
        node(ast.Return, bindings(value), st.none() | value),
        node(ast.Emit, bindings(value), st.none() | value),
        node(ast.Next, bindings(value)),
        node(ast.StopWhen, value),
        node(ast.State, IDENT, TYPE, value),
    )
    last = some(node(ast.Result, value), 0, 1)
    return node(ast.Block, st.tuples(some(statement), last).map(lambda pair: (*pair[0], *pair[1])))


def larger(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
    block = blocks(inner)
    pattern = st.one_of(NUMBER, NEGATIVE, STRING, BOOL, node(ast.Wildcard))
    bound = st.none() | inner
    choice = node(ast.If, inner, block, st.none() | block)
    return st.one_of(
        node(ast.ListLiteral, some(inner, 0, 30)),
        node(ast.Attribute, inner, IDENT),
        node(ast.Call, inner, some(node(ast.Argument, st.none() | IDENT, inner))),
        node(ast.Index, inner, some(st.one_of(inner, node(ast.Slice, bound, bound, bound)), 1)),
        node(ast.Unary, st.sampled_from(["-", "not"]), inner),
        node(
            ast.Binary,
            st.sampled_from(
                ["+", "-", "*", "/", "%", "@", "==", "!=", "<", "<=", ">", ">=", "and", "or"]
            ),
            inner,
            inner,
        ),
        choice,
        node(ast.If, inner, block, choice),
        node(ast.Match, inner, some(node(ast.Arm, some(pattern, 1), st.one_of(block, inner)))),
        node(ast.For, TARGETS, inner, block),
        node(ast.Loop, some(node(ast.Carried, IDENT, TYPE, inner)), inner, block),
        node(ast.Try, st.one_of(inner, block), bound, st.one_of(inner, block)),
    )


VALUE: SearchStrategy[Any] = st.recursive(LEAF, larger, max_leaves=12)
PARAMS = some(node(ast.Param, IDENT, TYPE, st.none() | LEAF))
KEY = st.one_of(DOTTED, node(ast.Ident, st.just("gpu(0)")))
SETTING: SearchStrategy[Any] = st.recursive(
    node(ast.Setting, KEY, VALUE, st.none()),
    lambda inner: node(ast.Setting, KEY, st.none(), some(inner, 0, 4)),
    max_leaves=6,
)
AXES = some(st.tuples(IDENT, st.integers(0, 4)), 1)
EXTERNAL = node(
    ast.External, st.sampled_from(["python", "native"]), STRING, st.booleans(), st.booleans()
)
CONSTRAINT = node(ast.Constraint, st.sampled_from(["==", "<", ">="]), DIM, DIM)
CLAUSES = {
    "where": some(CONSTRAINT),
    "batch": st.none() | node(ast.BatchAxis, st.none() | AXES),
    "pads": some(node(ast.Pads, IDENT, bindings(LEAF)), 0, 2),
}
LIMITS = {"batch": st.none() | NUMBER, "deadline": st.none() | DURATION}
SEQUENCE = {"sequence": st.just(True), "idle": st.none() | DURATION}
STEP = st.one_of(
    node(ast.Stub, DOTTED, bindings(VALUE)),
    node(ast.Given, IDENT, VALUE),
    node(ast.Expect, VALUE),
)
ITEM = st.one_of(
    node(ast.UseModule, IDENT, st.none() | IDENT),
    node(ast.UseFile, STRING, IDENT),
    node(ast.TypeDef, IDENT, TYPE),
    node(ast.Const, IDENT, TYPE, VALUE),
    node(ast.Model, IDENT, IDENT, STRING, **CLAUSES),
    node(ast.Model, IDENT, IDENT, STRING, PARAMS, PARAMS, **CLAUSES),
    node(ast.Fn, IDENT, PARAMS, PARAMS, st.one_of(EXTERNAL, blocks(VALUE))),
    node(ast.Pipeline, IDENT, PARAMS, PARAMS, blocks(VALUE), stream=st.booleans(), **LIMITS),
    node(ast.Pipeline, IDENT, PARAMS, PARAMS, blocks(VALUE), **SEQUENCE, **LIMITS),
    node(ast.Schedule, IDENT, st.none() | STRING, some(SETTING)),
    node(ast.Test, STRING, IDENT, some(STEP)),
)


@given(some(ITEM, 0, 3))
@pytest.mark.slow
def test_a_formatted_program_is_the_same_program_and_stays_as_it_is(items: Any) -> None:
    module = ast.Module(items, span=SPAN)
    text = format_module(module)
    again = parse(Source("formatted.pipe", text))
    assert again == module
    assert format_module(again) == text


@given(some(ITEM, 1, 2), st.data())
def test_comments_anywhere_are_kept_and_stay_where_they_are(items: Any, data: Any) -> None:
    lines = format_module(ast.Module(items, span=SPAN)).splitlines()
    for i in range(len(lines)):
        match data.draw(st.integers(0, 4)):
            case 0:
                lines[i] += f" #end {i}"
            case 1:
                lines[i] = f"# above {i}\n{lines[i]}"
            case 2:
                lines[i] = f"\n\n# apart {i}\n\n{lines[i]}"
            case _:
                pass
    module = parse(Source("commented.pipe", "\n".join(lines)))
    text = format_module(module)
    again = parse(Source("formatted.pipe", text))
    assert again == module
    assert sorted(c.text for c in again.comments) == sorted(c.text for c in module.comments)
    assert format_module(again) == text


def formatted(text: str) -> str:
    return format_module(parse(Source("a.pipe", text)))


CANONICAL = """\
# What this file is.

use image  # ops on pictures
use "common.pipe" as common

type Quad = f32[4, 2]
const charset: string[K] = lines("keys.txt")

model detect = onnx "models/detect_text_in_pages.onnx" (x: f32[3, H, W]) -> (heat: f32[1, H, W])
    where H % 32 == 0, W % 32 == 0
    batch none

fn grow(box: f32[4, 2]) -> (box: f32[4, 2]) { box * 2 }

pipeline page(
    photo: bytes,  # JPEG or PNG
    min_score: f32 = 0.5,
) -> (text: string[N], score: f32[N])
    batch 8
    deadline 2s
{
    # First find the lines.
    box, _ = detect(image.decode(photo))

    lines = for b in box {
        turned = if b[1] > 0.9 { image.rotate180(b) } else { b }
        kind = match turned { 0 | 1 => "small", _ => "large" }
        wide = image.resize_to_some_size(
            image.warp(turned, b, height = 48, width = 192),
            height = 960,
            mode = "nearest",
        )
        yield text = kind, score = wide when wide >= min_score  # keep good ones
        # and nothing else
    }
    sum = first_long_operand_of_this_sum
        + second_long_operand_of_this_sum
        - third_long_operand_of_this_sum * 2
    return text = lines.text, score = lines.score
}

schedule page on "server" {  # how it runs
    detect { batch { max = 32, wait = 1ms }, instances = [gpu(0), 2 * cpu] }
    memory { gpu(0) = 900MiB }
}

test "one line" for page {
    stub detect = (heat = [0.1, 0.9])
    given photo = file("one.png")
    expect text == ["EXIT"]
}
"""


def test_the_canonical_form_is_left_as_it_is() -> None:
    assert formatted(CANONICAL) == CANONICAL


def test_layout_does_not_matter() -> None:
    squeezed = CANONICAL.replace("    ", " ").replace(" = ", "=").replace("\n\n", "\n\n\n\n")
    assert formatted(squeezed.replace("\n", "\r\n")) == CANONICAL


def test_long_lists_and_returns_fill_lines() -> None:
    numbers = ", ".join(str(n) for n in range(1000, 1040))
    fields = ", ".join(f"field_{n} = value_{n}" for n in range(8))
    code = f"x = [{numbers}]\n return {fields} when x"
    lines = formatted(f"pipeline p(a: f32) -> (y: f32) {{ {code} }}").splitlines()
    assert [len(line) for line in lines] == [32, 9, 97, 97, 67, 5, 86, 89, 1]
    assert lines[5:8] == [
        "    ]",
        "    return field_0 = value_0, field_1 = value_1, field_2 = value_2, field_3 = value_3,",
        "        field_4 = value_4, field_5 = value_5, field_6 = value_6, field_7 = value_7 when x",
    ]


def test_an_empty_file_stays_empty_and_comments_alone_are_kept() -> None:
    assert formatted("\n\n") == ""
    assert formatted("# a\n\n\n# b") == "# a\n\n# b\n"


def test_bodies_stand_apart() -> None:
    text = "type A = f32\nfn f(x: f32) -> (y: f32) { x }\ntype B = f32\n"
    assert formatted(text) == ("type A = f32\n\nfn f(x: f32) -> (y: f32) { x }\n\ntype B = f32\n")


@pytest.mark.parametrize(
    "value",
    [
        "(a + b) * c",
        "a - (b - c)",
        "-(a + b)",
        "not (a and b)",
        "(not a) == b",
        "(a < b) == c",
        "(if a { b } else { c }).x",
        "try (if a { b }) else c",
        "try a within 20ms else b",
        "a[1:, :4, ::2, 3]",
        '"a \\"quoted\\" line\\n"',
    ],
)
def test_brackets_stand_where_they_mean_something(value: str) -> None:
    text = f"pipeline p(a: f32) -> (y: f32) {{\n    y = {value}\n}}\n"
    assert formatted(text) == text
    assert formatted(text.replace(value, f"({value})")) == text
