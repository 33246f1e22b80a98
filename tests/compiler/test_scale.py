"""Long and deep pipelines: no recursion error, and time in proportion to length."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from headrace.compiler.driver import compile_source
from headrace.compiler.front import check
from headrace.compiler.plan_file import read, to_bytes
from headrace.dsl.format import format_module
from headrace.dsl.parse import parse
from headrace.dsl.recursion import MAX_BLOCKS
from headrace.dsl.source import Source
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Request

ROW = np.zeros(3, np.float32)


def nested(depth: int) -> Source:
    """A pipeline of blocks inside one another: `if`, `for` and `match` in turn.

    Each `for` adds a row of ones, and each block is entered when `flag` holds and `n` is -1.
    """
    before, value = "", "x + 1.0"
    for level in range(depth):
        name = f"a{level}"
        match level % 3:
            case 0:
                before = f"{name} = if flag {{\n{before}{value}\n}} else {{\nx\n}}\n"
                value = name
            case 1:
                before = f"{name} = for r{level} in rows {{\n{before}yield {value} + r{level}\n}}\n"
                value = f"{name}[0]"
            case _:
                before = f"{name} = match n {{\n{level} => x\n_ => {{\n{before}{value}\n}}\n}}\n"
                value = name
    head = "pipeline deep(x: f32[3], rows: f32[1, 3], flag: bool, n: i64) -> (y: f32[3])"
    return source(f"{head} {{\n{before}return y = {value}\n}}\n")


def calls(count: int) -> Source:
    """Functions that call one another, each with 20 blocks inside one another."""
    lines = ["fn g0(a: f32[3], c: bool) -> (b: f32[3]) {", "    return b = a + 1.0", "}"]
    for i in range(1, count):
        inner = f"g{i - 1}(a, c)"
        for _ in range(20):
            inner = f"if c {{ {inner} }} else {{ a }}"
        lines += [f"fn g{i}(a: f32[3], c: bool) -> (b: f32[3]) {{", f"    return b = {inner}", "}"]
    call = f"    return y = g{count - 1}(x, flag)"
    return source(
        "\n".join([*lines, "pipeline p(x: f32[3], flag: bool) -> (y: f32[3]) {", call, "}", ""])
    )


def chain(count: int) -> Source:
    lines = [f"    x{i + 1} = math.abs(x{i}) + {i}.0" for i in range(count)]
    head = "use math\npipeline long(x0: f32[4]) -> (y: f32[4]) {"
    return source("\n".join([head, *lines, f"    return y = x{count}", "}", ""]))


def source(text: str) -> Source:
    return Source("p.pipe", text, Path("/nowhere/p.pipe"))


def codes(source: Source) -> list[str]:
    return [one.code for one in check(source)]


@pytest.mark.slow
def test_two_hundred_blocks_go_all_the_way_to_an_answer() -> None:
    deep = nested(MAX_BLOCKS)
    formatted = format_module(parse(deep))
    assert format_module(parse(source(formatted))) == formatted
    plan = read(to_bytes(compile_source(deep)))
    engine = Engine(plan, EngineConfig(workers=1, intra_op_threads=1))
    try:
        inputs = {
            "x": ROW,
            "rows": np.ones((1, 3), np.float32),
            "flag": np.bool_(True),
            "n": np.int64(-1),
        }
        y = engine.call(Request("deep", inputs)).outputs["y"]
    finally:
        engine.close()
    loops = sum(level % 3 == 1 for level in range(MAX_BLOCKS))
    np.testing.assert_array_equal(np.asarray(y), ROW + 1 + loops)


def test_one_block_more_is_a_mistake() -> None:
    assert codes(nested(MAX_BLOCKS)) == []
    assert codes(nested(MAX_BLOCKS + 1)) == ["HR423"]


def test_blocks_of_functions_that_are_called_count_too() -> None:
    assert codes(calls(10)) == []
    assert codes(calls(12)) == ["HR423"]


@pytest.mark.slow
def test_a_plain_source_leaves_the_interpreter_as_it_is() -> None:
    program = (
        "import sys; before = sys.getrecursionlimit();"
        "from pathlib import Path; from headrace.compiler import compile_source;"
        "from headrace.dsl.source import Source; p = Path('/nowhere/p.pipe');"
        "text = 'pipeline p(x: f32) -> (y: f32) {\\n return y = x\\n}';"
        "compile_source(Source('p.pipe', text, p));"
        "sys.exit(sys.getrecursionlimit() != before)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_thousand_stages_are_parsed_and_checked() -> None:
    assert codes(chain(1_000)) == []


@pytest.mark.slow
def test_ten_thousand_stages_compile() -> None:
    plan = compile_source(chain(10_000))
    assert len(plan.pipelines[0].body.steps) == 20_000
