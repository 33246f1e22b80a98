"""A fork of a process that has submitted has none of its threads: it is told so, and goes on."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os
import sys

import headrace

app = headrace.load(sys.argv[1], workers=1, intra_op_threads=1)
for _ in range(100):  # up to where no worker is woken any more
    assert app.p.submit(x=1).result().y == 2
child = os.fork()
if not child:
    try:
        app.p.submit(x=1)
    except headrace.Fault as fault:
        print(fault.code.name, app.p(x=1).y, flush=True)
    app.close()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert app.p.submit(x=1).result(20).y == 2
app.close()
"""
PIPE = """
fn one(x: f32) -> (y: f32) = python "m.py:one" batched
pipeline p(x: f32) -> (y: f32) { return y = one(x) }
schedule p on "server" { one { batch { max = 4 } } }
"""


@pytest.mark.slow
def test_what_is_submitted_in_a_fork_fails_at_once(tmp_path: Path) -> None:
    (tmp_path / "p.pipe").write_text(PIPE)
    (tmp_path / "m.py").write_text("def one(x):\n    return x + 1\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", tmp_path / "program.py", tmp_path / "p.pipe"],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert (ran.returncode, ran.stdout) == (0, "UNAVAILABLE 2.0\n"), ran.stderr
