"""Fuzzes one target, guided by what of the server is reached.

    python tests/safety/fuzz.py TARGET FOLDER -max_total_time=60

starts from the corpus, which it writes to the folder, and stops at the first that raises anything:
libFuzzer then writes that to a file and says where. Needs `atheris`.
"""

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))

with atheris.instrument_imports(include=["headrace.runtime.protocols", "headrace.runtime.http"]):  # pyright: ignore[reportAttributeAccessIssue] - set at run time
    from tests.safety.corpus import entries
    from tests.safety.targets import TARGETS, seeds


def main() -> None:
    target, folder, *options = sys.argv[1:]
    for number, entry in enumerate(seeds(target, entries("http"), entries("grpc"))):
        (Path(folder) / str(number)).write_bytes(entry)
    atheris.Setup([sys.argv[0], *options, folder], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
