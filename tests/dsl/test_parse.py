"""The parser: what each construct becomes, where its span lies, and that it scales."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dsl import ast
from headrace.dsl.depth import MAX_HEIGHT
from headrace.dsl.diagnostic import CompileError, Diagnostic
from headrace.dsl.lexer import MAX_BRACKETS
from headrace.dsl.parse import parse
from headrace.dsl.recursion import MAX_BLOCKS
from headrace.dsl.render import render
from headrace.dsl.source import Source, Span
from headrace.dsl.token import CONTEXT_WORDS, RESERVED_WORDS
from tests.growth import times_as_long

SPAN = Span(Source("x", ""), 0, 0)


def items(text: str) -> tuple[ast.Item, ...]:
    return parse(Source("a.pipe", text)).items


def statements(code: str) -> tuple[ast.Statement, ...]:
    (pipeline,) = items(f"pipeline p(x: f32) -> (y: f32) {{\n{code}\n}}\n")
    assert isinstance(pipeline, ast.Pipeline)
    return pipeline.body.statements


def value(code: str) -> ast.Expr:
    (assign,) = statements(f"v = {code}")
    assert isinstance(assign, ast.Assign)
    return assign.value


def mistakes(text: str) -> list[Diagnostic]:
    with pytest.raises(CompileError) as caught:
        parse(Source("a.pipe", text))
    return list(caught.value.diagnostics)


def codes(text: str) -> list[str]:
    return [mistake.code for mistake in mistakes(text)]


def name(text: str) -> ast.Name:
    return ast.Name(text, span=SPAN)


def ident(text: str) -> ast.Ident:
    return ast.Ident(text, span=SPAN)


def binary(left: ast.Expr, op: ast.BinaryOp, right: ast.Expr) -> ast.Binary:
    return ast.Binary(op, left, right, span=SPAN)


A, B, C = name("a"), name("b"), name("c")

# ---- what things become


@pytest.mark.parametrize(
    ("code", "tree"),
    [
        ("a + b * c", binary(A, "+", binary(B, "*", C))),
        ("a - b - c", binary(binary(A, "-", B), "-", C)),
        ("a or b and c", binary(A, "or", binary(B, "and", C))),
        ("not a == b", ast.Unary("not", binary(A, "==", B), span=SPAN)),
        ("-a * b", binary(ast.Unary("-", A, span=SPAN), "*", B)),
        ("-a.b", ast.Unary("-", ast.Attribute(A, ident("b"), span=SPAN), span=SPAN)),
        ("a @ b < c", binary(binary(A, "@", B), "<", C)),
    ],
)
def test_operators_bind_as_in_python(code: str, tree: ast.Expr) -> None:
    assert value(code) == tree


@pytest.mark.parametrize(
    ("code", "seconds"),
    [("150ms", 0.15), ("2s", 2.0), ("1us", 1e-6), ("1m", 60.0), ("1.5h", 5400.0)],
)
def test_durations_are_seconds(code: str, seconds: float) -> None:
    duration = value(code)
    assert isinstance(duration, ast.Duration)
    assert duration.seconds == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize(
    ("code", "size"), [("4KiB", 4096), ("64MiB", 64 << 20), ("1GiB", 1 << 30), ("1.5KiB", 1536)]
)
def test_sizes_are_bytes(code: str, size: int) -> None:
    assert value(code) == ast.Size(size, code, span=SPAN)


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("12", 12),
        ("1_000", 1000),
        ("0x1f", 31),
        ("0b101", 5),
        ("0o17", 15),
        ("0.50", 0.5),
        ("1e-3", 0.001),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_numbers_keep_their_spelling_and_their_kind(code: str, number: float) -> None:
    parsed = value(code)
    assert isinstance(parsed, ast.Number)
    assert (parsed.value, type(parsed.value), parsed.text) == (number, type(number), code)


def test_escapes_in_strings() -> None:
    assert value(r'"a\n\t\r\"\\\u{1F600}é"') == ast.String('a\n\t\r"\\\U0001f600é', span=SPAN)


def test_a_for_may_walk_several_lists_and_drop_some() -> None:
    loop = value("for a, _ in zip(xs, ys) { yield y = a }")
    assert isinstance(loop, ast.For)
    assert loop.targets == (ident("a"), ast.Wildcard(span=SPAN))


def test_slices() -> None:
    index = value("a[1:, :4, ::2, -1]")
    assert isinstance(index, ast.Index)
    one, two, four = (ast.Number(n, "", span=SPAN) for n in (1, 2, 4))
    assert index.items == (
        ast.Slice(one, None, None, span=SPAN),
        ast.Slice(None, four, None, span=SPAN),
        ast.Slice(None, None, two, span=SPAN),
        ast.Unary("-", one, span=SPAN),
    )


def test_loop_and_try() -> None:
    loop, attempt = statements(
        """ids, n = loop (ids: i64[_] = start, n: i32 = 0) max 64 {
            tok = argmax(lm(ids)[-1, :])
            emit token = tok
            next ids = concat(ids, [tok]), n = n + 1
            stop when tok == eos
        }
        y = try big(x) within 20ms else small(x)"""
    )
    assert isinstance(loop, ast.Assign)
    assert isinstance(attempt, ast.Assign)
    assert isinstance(loop.value, ast.Loop)
    kinds = [type(statement) for statement in loop.value.body.statements]
    assert kinds == [ast.Assign, ast.Emit, ast.Next, ast.StopWhen]
    assert isinstance(attempt.value, ast.Try)
    assert isinstance(attempt.value.within, ast.Duration)


def test_clauses_of_models_and_pipelines() -> None:
    model, pipeline = items(
        """model m = onnx "m.onnx" (ids: i64[L]) -> (y: f32[L])
            where L % 32 == 0,
                  L > 2
            batch axis { ids = 0, y = 1 }
            pads L with (ids = 0)
        pipeline p(x: f32) -> stream (y: f32)
            per sequence idle 30s
            batch 4
            deadline 2s
        {
            state h: f32[2, 128] = zeros
            next h = x
        }"""
    )
    assert isinstance(model, ast.Model)
    assert isinstance(pipeline, ast.Pipeline)
    assert [constraint.op for constraint in model.where] == ["==", ">"]
    assert model.batch == ast.BatchAxis(((ident("ids"), 0), (ident("y"), 1)), span=SPAN)
    assert [pads.dim.text for pads in model.pads] == ["L"]
    assert pipeline.stream
    assert pipeline.sequence
    assert pipeline.idle is not None
    assert pipeline.idle.seconds == 30
    assert pipeline.batch is not None
    assert pipeline.batch.value == 4


def test_a_schedule_is_a_tree_of_settings() -> None:
    (schedule,) = items(
        """schedule p on "gpu" {
            common.read { batch { max = 32, prefer = [8, 16] }, instances = [gpu(0), 2 * cpu] }
            queue { timeout = 500ms
                    on_timeout = reject }
            memory { gpu(0) = 900MiB }
        }"""
    )
    assert isinstance(schedule, ast.Schedule)
    keys = [
        (setting.key.text, [inner.key.text for inner in setting.settings or ()])
        for setting in schedule.settings
    ]
    assert keys == [
        ("common.read", ["batch", "instances"]),
        ("queue", ["timeout", "on_timeout"]),
        ("memory", ["gpu(0)"]),
    ]


def test_words_of_one_place_are_names_in_others() -> None:
    for word in CONTEXT_WORDS:
        (assign,) = statements(f"{word} = f({word} = {word}, {word})")
        assert isinstance(assign, ast.Assign)


def test_reserved_words_are_no_names() -> None:
    for word in RESERVED_WORDS:
        assert codes(f"pipeline p(x: f32) -> (y: f32) {{\n    y = f({word} = 3)\n}}")


def test_comments_are_collected() -> None:
    module = parse(Source("a.pipe", "# one\nuse image # two  \n"))
    assert [comment.text for comment in module.comments] == ["# one", "# two"]


# ---- where a line ends


@pytest.mark.parametrize(
    "code",
    [
        "v = a +\n b",
        "v = a\n + b",
        "v = a\n - b",
        "v = a\n and b",
        "v =\n a",
        "v = f(\na\n,\nb\n)",
        "v = a\n.b",
        "v = if a { b }\nelse { c }",
        "yield v = a,\n w = b\n when c",
        "v = try a\n within 2s\n else b",
        'v = match a {\n "x"\n | "y" => b\n _ => c\n}',
    ],
)
def test_a_line_that_goes_on_is_one_statement(code: str) -> None:
    assert len(statements(code)) == 1


def test_a_bracket_or_a_minus_sign_at_the_start_of_a_line_starts_a_value() -> None:
    for start in ("[b]", "(b)", "-b"):
        first, last = statements(f"v = a\n{start}")
        assert isinstance(first, ast.Assign)
        assert isinstance(last, ast.Result)


def test_blocks_inside_brackets_have_lines_of_their_own() -> None:
    (assign,) = statements("v = f(if a {\n b = c\n b\n} else { c },\n d)")
    assert isinstance(assign, ast.Assign)


def test_byte_order_marks_and_carriage_returns_of_other_systems_are_fine() -> None:
    text = "\ufeffuse image\r\n\r\npipeline p(x: f32) -> (y: f32) {\r\n    y = a\r\n}\r\n"
    assert len(items(text)) == 2


# ---- spans


def test_spans_are_exact() -> None:
    code = "(a + b) * f(c, k = [1, 2])[0].p"
    product = value(code)
    assert isinstance(product, ast.Binary)
    assert product.span.text == "(a + b) * f(c, k = [1, 2])[0].p"
    assert product.left.span.text == "(a + b)"
    assert isinstance(product.right, ast.Attribute)
    assert product.right.span.text == "f(c, k = [1, 2])[0].p"
    assert isinstance(product.right.value, ast.Index)
    assert isinstance(product.right.value.value, ast.Call)
    call = product.right.value.value
    assert [argument.span.text for argument in call.arguments] == ["c", "k = [1, 2]"]


def test_spans_of_items_end_where_the_item_ends() -> None:
    texts = ["use image", "type A = list<f32[3], 4>?", 'fn f(x: A) -> (y: A)\n = python "a.py:f"']
    parsed = items("\n# a comment\n".join(texts) + "   \n")
    assert [item.span.text for item in parsed] == texts


# ---- several mistakes


def test_one_run_reports_mistakes_of_every_item_and_statement() -> None:
    text = """type A =
model m = onnx
pipeline p(x: f32) -> (y: f32) {
    a b
    c = f(x
          y)
    for d xs { yield e = d }
    return y = x
}
mdoel n = onnx "n.onnx"
"""
    found = [(mistake.primary.span.line, mistake.code) for mistake in mistakes(text)]
    assert found == [
        (1, "HR024"),
        (2, "HR028"),
        (4, "HR013"),
        (5, "HR014"),
        (7, "HR028"),
        (10, "HR010"),
    ]


def test_a_bracket_left_open_spoils_one_item_only() -> None:
    text = "pipeline p(x: f32) -> (y: f32) {\n    a = f(x\nmodel m = onnx\n"
    assert codes(text) == ["HR007", "HR028"]


def test_statements_outside_a_pipeline_are_reported_once() -> None:
    assert codes("a = 1\nb = 2\nreturn c = a\nuse image\n") == ["HR011"]


# ---- size and depth


def test_too_many_brackets_are_a_mistake_and_no_crash() -> None:
    for depth in (MAX_BRACKETS, 200, 5000):
        assert codes(f"const a: f32 = {'(' * (depth + 1)}1{')' * (depth + 1)}") == ["HR009"]
    assert items(f"const a: f32 = {'(' * MAX_BRACKETS}1{')' * MAX_BRACKETS}")


def test_two_hundred_blocks_may_nest_and_many_more_are_a_mistake() -> None:
    for depth, expected in ((30, []), (MAX_BLOCKS, []), (3 * MAX_BLOCKS, ["HR009"])):
        code = "v = " + "if a { " * depth + "b" + " }" * depth
        text = f"pipeline p(x: f32) -> (y: f32) {{\n{code}\n}}\n"
        assert (codes(text) if expected else list(items(text))[1:]) == expected


@pytest.mark.parametrize("link", [" + a", ".b", "[0]", "(0)"])
@pytest.mark.slow
def test_too_long_a_chain_is_a_mistake_and_no_crash(link: str) -> None:
    for length in (MAX_HEIGHT, 5_000):
        assert codes(f"const c: f32 = a{link * length}") == ["HR009"]


@pytest.mark.parametrize("sign", ["-", "not "])
def test_too_many_signs_are_a_mistake_and_no_crash(sign: str) -> None:
    assert codes("const c: f32 = " + sign * 5_000 + "a") == ["HR009"]


def program(lines: int) -> str:
    stages = (
        f"    a{i + 1} = image.resize(a{i}, size = {i}) * 2 + b[1:, 3]\n" for i in range(lines)
    )
    return f"pipeline p(a0: f32) -> (y: f32) {{\n{''.join(stages)}    return y = a{lines}\n}}\n"


@pytest.mark.slow
def test_time_grows_with_length_and_no_faster() -> None:
    items(program(1))  # builds the parser
    small, large = program(200), program(1600)
    assert times_as_long(lambda: items(large), lambda: items(small)) < 24


# ---- characters


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("use image\x00", "HR002"),
        ("use im\u200bage", "HR001"),
        ('const a: string = "x\u202ey"', "HR002"),
        ("# a\u2066b", "HR002"),
        ("use image\rtype A = f32", "HR002"),
        ("use \ufeffimage", "HR002"),
        ("const a: f32 = 3\u00a0+ 4", "HR001"),
        ("const а: f32 = 3", "HR001"),
        ("const a: f32 = “x”", "HR001"),
        ('const a: string = "abc', "HR003"),
        ("const a: string = 'abc'", "HR003"),
        (r'const a: string = "\q"', "HR004"),
        (r'const a: string = "\u{D800}"', "HR004"),
        (r'const a: string = "\u{110000}"', "HR004"),
        ("const a: i64 = 18446744073709551616", "HR005"),
        (f"const a: i64 = {'9' * 10_000}", "HR005"),
        ("const a: f64 = 1e999", "HR005"),
        ("const a: i64 = 0x", "HR005"),
        ("const a: i64 = 017", "HR005"),
        ("const a: i64 = 1__0", "HR005"),
        ("const a: f32 = 3MB", "HR006"),
        ("const a: f32 = 0.3KiB", "HR006"),
        ("const a: f32 = 1e300TiB", "HR006"),
    ],
)
def test_characters_and_literals_that_make_no_sense(text: str, code: str) -> None:
    assert set(codes(text)) == {code}


def test_a_file_of_noise_gives_a_bounded_number_of_mistakes() -> None:
    assert len(mistakes("".join(map(chr, range(1, 0x3000))) * 3)) < 250
    assert len(mistakes("} " * 5000)) < 250


def test_look_alikes_are_named_with_what_was_meant() -> None:
    (mistake,) = mistakes("const a: f32 = 3 – 4")
    assert mistake.message == "`–` (en dash) is not `-`"
    assert mistake.help == "write `-`"


# ---- anything at all

WORDS = [*RESERVED_WORDS, *CONTEXT_WORDS, "a", "f32", "1", "0.5", '"s"', "2ms", "_", "#c\n"]
SIGNS = [*"(){}[]<>,:.=|?+-*/%@\n\n", "->", "=>", "==", "<=", "list<"]


@given(st.lists(st.sampled_from([*WORDS, *SIGNS, '"', "é", "\x00", "\r", "&&", "9x"]), max_size=60))
def test_any_tokens_give_a_tree_or_mistakes_with_places(tokens: list[str]) -> None:
    text = " ".join(tokens)
    for mistake in problems(text):
        assert 0 <= mistake.primary.span.start <= mistake.primary.span.end <= len(text)
        assert render([mistake])


def problems(text: str) -> tuple[Diagnostic, ...]:
    try:
        parse(Source("any.pipe", text))
    except CompileError as error:
        return error.diagnostics
    return ()


@given(st.data())
def test_a_program_with_a_word_too_many_or_too_few_is_told_where(data: st.DataObject) -> None:
    text = GOOD
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 6)))
        text = text[:start] + data.draw(st.sampled_from(["", " ", *WORDS, *SIGNS])) + text[end:]
    found = problems(text)
    assert len(found) < 20
    assert all(render([mistake]) for mistake in found)


GOOD = """\
use image
model m = onnx "m.onnx" (x: f32[3, H]) -> (y: f32[H]) where H % 32 == 0
fn f(x: list<f32[N], 9>) -> (y: f32?) = python "a.py:f" pure
pipeline p(x: f32[N], least: f32 = 0.5) -> (y: f32[N]) deadline 2s {
    a, _ = image.fit(x, size = [1, 2])[0, 1:]
    b = for c in a { yield c = c * 2 when c > least }
    d = match b { 1 | 2 => a, _ => if a and not b { b } else { f(a) } }
    return y = d
}
schedule p on "x" {
    m { batch { max = 3, wait = 1ms } }
}
test "t" for p {
    stub m = (y = [0.5])
    expect y == [1]
}
"""
