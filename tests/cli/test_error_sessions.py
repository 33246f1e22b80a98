"""Error pages that take commands to be shown: what they print, and that the cure is one."""

import re
import shlex
from pathlib import Path

import pytest

from headrace.cli import main
from headrace.dsl.pages import Session, codes, page

SESSIONS = {code: shown for code in codes() if (shown := page(code).session) is not None}


@pytest.fixture
def session(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Session:
    """The session of a page, in a folder that has the files of its mistake."""
    monkeypatch.chdir(tmp_path)
    found: Session = SESSIONS[request.param]
    write(found.wrong)
    return found


def write(files: tuple[tuple[str, str], ...]) -> None:
    for name, text in files:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")


def run(command: str) -> int:
    program, *words = shlex.split(command)
    assert program == "headrace"
    return main(words)


@pytest.mark.parametrize("session", SESSIONS, indirect=True)
def test_the_last_command_prints_what_the_page_shows(
    session: Session, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in session.commands[:-1]:
        assert run(command) == 0
    capsys.readouterr()
    run(session.commands[-1])
    printed = capsys.readouterr()
    shown = re.sub(r"\([\d.]+ m?s\)", "(10 ms)", printed.out + printed.err)  # what a test took
    assert shown.rstrip("\n") + "\n" == session.expected
    assert request.node.callspec.params["session"] in session.expected


@pytest.mark.parametrize("session", SESSIONS, indirect=True)
def test_what_the_page_calls_right_is_good(session: Session) -> None:
    write(session.right)
    for command in session.others:
        assert run(command) == 0
