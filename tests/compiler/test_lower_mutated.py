"""Programs changed at random: the answer is graphs or mistakes, never a crash."""

import random
import re
from pathlib import Path

import pytest

from headrace.compiler.lower import lower
from headrace.compiler.verify import verify
from headrace.dsl import ast
from headrace.dsl.diagnostic import CompileError, Severity
from headrace.dsl.pages import codes, page
from headrace.dsl.parse import parse
from headrace.dsl.render import render
from headrace.dsl.source import Source

TOKEN = re.compile(r'"[^"\n]*"|[A-Za-z_]\w*|\d+\.\d+|\d+|[^\s\w]')
PROGRAMS = [
    text
    for code in codes()
    if code[2] in "123" and (example := page(code).example) is not None
    for text in (example.wrong, example.right)
]


def kind(token: str) -> str:
    if token[0].isalpha() or token[0] == "_":
        return "name"
    return "number" if token[0].isdigit() else "string" if token[0] == '"' else "sign"


POOL = {
    kind(token): sorted({t for p in PROGRAMS for t in TOKEN.findall(p) if kind(t) == kind(token)})
    for token in ("a", "1", '"', "+")
}


def mutated(program: str, chance: random.Random) -> str:
    """Replace, take out or add a few tokens, mostly by others of their kind."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = list(TOKEN.finditer(program))
        place = chance.choice(places)
        own = kind(place.group())
        near = [one.group() for one in places if kind(one.group()) == own]
        token = chance.choice(
            (chance.choice(near), chance.choice(near), chance.choice(POOL[own]), "")
        )
        program = program[: place.start()] + token + program[place.end() :]
    return program


def judge(program: str, folder: Path) -> bool:
    """Lower a program; tell whether it could be parsed. Fails when something is wrong with us."""
    source = Source("p.pipe", program, folder / "p.pipe")
    try:
        module = parse(source)
    except CompileError:
        return False
    result = lower(module, source, need_models=False)
    render(result.diagnostics)
    for graph in result.graphs:
        verify(graph)
    pipelines = sum(isinstance(item, ast.Pipeline) for item in module.items)
    sound = all(one.severity is Severity.WARNING for one in result.diagnostics)
    assert not sound or len(result.graphs) == pipelines, "a graph is missing, and nothing is said"
    return True


def run(seed: int, count: int, folder: Path) -> int:
    chance = random.Random(seed)
    parsed = 0
    for _ in range(count):
        program = mutated(chance.choice(PROGRAMS), chance)
        try:
            parsed += judge(program, folder)
        except Exception as error:
            raise AssertionError(f"on this program:\n{program}") from error
    return parsed


def test_some_mutated_programs_are_judged(tmp_path: Path) -> None:
    assert run(1, 300, tmp_path) > 30


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_mutated_programs_are_judged(seed: int, tmp_path: Path) -> None:
    assert run(100 + seed, 5000, tmp_path) > 500
