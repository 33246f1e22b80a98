"""Fuzzes the parser, the checker and the formatter, guided by what of them is reached.

    python tests/compiler/fuzz_sources.py FOLDER -max_total_time=60

starts from the sources that there are, which it writes to the folder, and stops at the first that
raises anything: libFuzzer then writes that to a file and says where. Needs `atheris`.
"""

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))

with atheris.instrument_imports(include=["headrace.dsl", "headrace.compiler"]):  # pyright: ignore[reportAttributeAccessIssue] - set at run time
    from tests.compiler.hostile import sound, survive


def fuzz(data: bytes) -> None:
    """Take bytes as a source; what is no UTF-8 is refused before it gets this far."""
    survive(data.decode("utf-8", "replace"))


def main() -> None:
    folder, *options = sys.argv[1:]
    for number, text in enumerate(sound()):
        (Path(folder) / str(number)).write_text(text, "utf-8")
    atheris.Setup([sys.argv[0], *options, folder], fuzz)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
