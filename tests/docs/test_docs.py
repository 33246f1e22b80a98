"""The documentation is true: its programs check, its commands give what they show.

A block's first word is its language, the rest says what it is:

    pipe               a whole file, which checks
    pipe run           likewise, and its tests pass
    pipe partial       whole items, which parse
    pipe statements    lines of a pipeline, which parse
    pipe NAME          also a file in the folder of the blocks that follow (wrong.pipe is wrong)
    json NAME, text NAME   likewise
    python NAME        likewise; other Python compiles, and what it imports is there
    console            `$ headrace ...` and what is printed; `...` stands for anything
    sh                 commands, whose words are understood
"""

import ast
import importlib
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.cli import main
from headrace.cli.main import COMMANDS, command_of
from headrace.compiler import check
from headrace.dsl.diagnostic import Severity
from headrace.dsl.parse import parse
from headrace.dsl.render import render
from headrace.dsl.source import Source
from headrace.testing import run_tests

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(ROOT.glob("docs/*.md")) if page.name != "stdlib.md"),
]
_FENCE = re.compile(r"^```(\w+)(?: ([\w./]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page) if block.language in languages]


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Block(page, line, match[1], match[2] or "", match[3])


@pytest.mark.parametrize("block", blocks("pipe"), ids=str)
def test_programs_parse_and_whole_files_check(block: Block, tmp_path: Path) -> None:
    source = Source(str(block), block.text, tmp_path / "example.pipe")
    if block.about == "statements":
        parse(Source(str(block), f"pipeline p(x: f32) -> (y: f32) {{\n{block.text}\n}}\n"))
        return
    module = parse(source)
    if block.about in ("partial", "wrong.pipe"):
        return
    assert module.items
    _write_what_is_named(block.text, tmp_path)
    _write_what_came_before(block, tmp_path)
    errors = [d for d in check(source) if d.severity is Severity.ERROR]
    assert not errors, render(errors)


def _write_what_is_named(text: str, folder: Path) -> None:
    """Write the functions, classes and assets that a program names, so that they are there."""
    for file, name in re.findall(r'python "([\w.]+):(\w+)"', text):
        with (folder / file).open("a", encoding="utf-8") as python:
            if name[0].isupper():
                python.write(f"class {name}:\n    ")
            called = "__call__" if name[0].isupper() else name
            python.write(f"def {called}(*arguments):\n        return arguments\n\n")
    for file in re.findall(r'lines\("([\w.]+)"\)', text):
        (folder / file).write_text("a\nb\n", encoding="utf-8")


def _write_what_came_before(block: Block, folder: Path) -> None:
    """Write the files that the page has shown before a block."""
    for before in blocks_of(block.page):
        if before.line < block.line and "." in before.about:
            (folder / before.about).parent.mkdir(parents=True, exist_ok=True)
            (folder / before.about).write_text(before.text, encoding="utf-8")


@pytest.mark.parametrize("block", [one for one in blocks("pipe") if one.about == "run"], ids=str)
def test_tests_that_are_shown_pass(block: Block, tmp_path: Path) -> None:
    """What a page has written before is there; other functions and models are stubbed."""
    _write_what_is_named(block.text, tmp_path)
    _write_what_came_before(block, tmp_path)
    results = list(run_tests(Source(str(block), block.text, tmp_path / "example.pipe")))
    assert results
    assert "".join(render(result.failures) for result in results) == ""


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_compiles_and_imports_what_there_is(block: Block) -> None:
    compile(block.text, str(block), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headrace"):
            module = importlib.import_module(node.module or "")
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
        match node:
            case ast.Attribute(value=ast.Name(id="headrace"), attr=name):
                assert hasattr(importlib.import_module("headrace"), name), name
            case _:
                pass


@pytest.mark.parametrize("page", [p for p in PAGES if "```console" in p.read_text()], ids=str)
def test_commands_print_what_is_shown(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks_of(page):
        if "." in block.about:
            Path(block.about).parent.mkdir(parents=True, exist_ok=True)
            Path(block.about).write_text(block.text, encoding="utf-8")
        if block.language != "console":
            continue
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.M):
            program, *words = shlex.split(command)
            assert program == "headrace", command
            main(words)
            out, err = capfd.readouterr()
            pattern = re.escape(expected.rstrip("\n")).replace(re.escape("..."), "(?s:.*?)")
            assert re.fullmatch(pattern, (out + err).rstrip("\n")), (
                f"{block}: {command}\n{out}{err}"
            )


def commands() -> list[tuple[Block, str]]:
    found: list[tuple[Block, str]] = []
    for block in blocks("sh", "console", ""):
        for line in block.text.splitlines():
            line = line.removeprefix("$ ")
            if line.startswith("headrace "):
                found.append((block, line))
    return found


@pytest.mark.parametrize(("block", "line"), commands(), ids=str)
def test_the_words_of_commands_are_understood(block: Block, line: str) -> None:
    _, name, *words = shlex.split(line, comments=True)
    assert name in COMMANDS, str(block)
    parser = ArgumentParser(exit_on_error=False)
    command_of(name).arguments(parser)
    parser.parse_intermixed_args(words)


def test_every_option_is_in_the_documentation() -> None:
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    for name in COMMANDS:
        parser = ArgumentParser(add_help=False)
        command_of(name).arguments(parser)
        section = text.partition(f"\n## headrace {name}\n")[2].partition("\n## ")[0]
        assert section, name
        options = {o for action in parser._actions for o in action.option_strings}
        missing = sorted(option for option in options if f"`{option}" not in section)
        assert not missing, f"headrace {name}: {missing}"


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
