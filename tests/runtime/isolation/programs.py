"""Sources for workers, and the means to meet them without a clock: named pipes."""

import os
import select
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from headrace.runtime.isolation.pool import Pool
from headrace.runtime.isolation.program import Program

SOURCE = """
import ctypes, os, sys, threading
import numpy as np

kept = []

def same(x):
    return x

def held(pipe):
    '''Say that it runs, and never return.'''
    with open(pipe, "w") as file:
        file.write(str(os.getpid()))
    threading.Event().wait()

def number(_):
    return os.getpid()

def leave(status):
    os._exit(status)

def crash(_):
    ctypes.string_at(0)

def fail(how):
    raise {
        "value": ValueError("thirteen"),
        "interrupt": KeyboardInterrupt("k"),
        "exit": SystemExit(3),
        "long": ValueError("x" * 10_000),
    }[how]

def write(x):
    x[...] = 0
    return x

def previous(x):
    '''Return what it was given before.'''
    kept.append(x)
    return kept[-2] if len(kept) > 1 else x

def grow(size):
    return len(np.ones(size, np.uint8))

def tell(text):
    print(text)
    print(text, file=sys.stderr)

class Counts:
    made = 0

    def __init__(self, device="none"):
        self.device, self.calls = device, 0

    def __call__(self, pipe):
        self.calls, self.pipe = self.calls + 1, pipe
        return [self.calls, self.device]

    def close(self):
        if self.pipe:
            with open(self.pipe, "w") as file:
                file.write("closed")
"""


def program(attribute: str, source: str = SOURCE, **settings: Any) -> Program:  # Any: its fields
    content = source.encode()
    digest = sha256(content).hexdigest()
    return Program("stage", content, digest, "m.py", attribute, **settings)


@contextmanager
def pool(
    attribute: str,
    source: str = SOURCE,
    count: int = 1,
    patience: float = 60.0,  # however busy the machine is, a worker has started by then
    **settings: Any,  # Any: as above
) -> Generator[Pool]:
    opened = Pool(program(attribute, source, **settings), count, patience=patience)
    try:
        yield opened
    finally:
        opened.close()


def pipe(folder: Path, name: str = "pipe") -> str:
    path = str(folder / name)
    os.mkfifo(path)
    return path


def told(path: str) -> str:
    """Return what the other side writes, when it does."""
    return Path(path).read_text()


def ended(number: int, seconds: float = 10.0) -> bool:
    """Wait for the end of a process that need not be a child."""
    try:
        descriptor = os.pidfd_open(number)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)
