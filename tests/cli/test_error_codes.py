"""Each code that is given has a page, and each page's code is given by something."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import headrace
from headrace.compiler import plan_file
from headrace.dsl.pages import codes, page
from headrace.runtime import load_error

ROOT = Path(str(headrace.__file__)).parent
CODE = re.compile(r"HR\d{3}")
MAY_GIVE = re.compile(r"HR\d{3}|\b_error\(")  # most files do not: to parse them all takes a second
NOT_SHOWN = {
    "HR023": "only a file that is not text has it",
    "HR323": "it takes seconds to find",
    "HR415": "it is the operating system's to refuse a file",
    "HR422": "what shows it prints the plan's hash as well, or a time",
    "HR423": "it takes 200 blocks",
    "HR425": "it takes a model's file",
    "HR430": "it takes a model's file",
    "HR431": "it takes a model's file",
    "HR433": "it takes a model's file",
    "HR501": "the plan is of another headrace",
    "HR502": "it is of a machine without ONNX Runtime, or without a GPU",
    "HR503": "it is of a machine with two packages",
    "HR505": "it takes a model that is no model",
    "HR506": "the plan is of another headrace",
    "HR507": "what it prints is of the machine",
    "HR509": "it is of a machine without the package of a backend",
    "HR510": "it takes a model of another library",
    "HR514": "it is of a machine with TensorRT",
    "HR615": "it takes a model's file",
}


def given() -> Iterator[str]:
    """Yield the codes that stand in code, but for those in docstrings and comments."""
    folders = [ROOT, *(one.resolve() for one in ROOT.iterdir() if one.is_symlink())]
    texts = (path.read_text("utf-8") for folder in folders for path in folder.rglob("*.py"))
    for text in filter(MAY_GIVE.search, texts):
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Constant(value=str() as value) if CODE.fullmatch(value):
                    yield value
                case ast.Call(
                    func=ast.Name(id="_error"), args=[_, ast.Constant(value=int() as number), *_]
                ):
                    yield f"HR{number:03}"
                case _:
                    pass
    for module in (load_error, plan_file):  # these number their own
        yield from (one for one in vars(module).values() if CODE.fullmatch(str(one)))


def test_codes_and_pages_are_the_same() -> None:
    assert sorted(set(given())) == list(codes())


def test_each_page_shows_its_mistake_or_is_known_not_to() -> None:
    silent = [code for code in codes() if page(code).example is None and page(code).session is None]
    assert silent == list(NOT_SHOWN)
