"""Words to a command to an exit code."""

import os
import sys
import traceback
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from importlib import import_module
from keyword import iskeyword
from types import MappingProxyType
from typing import Final, NoReturn

from ..dsl.diagnostic import CompileError, Refusal
from ..dsl.nearest import nearest
from .command import Command, Exit, RunFailure, UsageError
from .console import Console, OutputError

COMMANDS = (
    *("check", "fmt", "compile", "explain", "graph", "export", "import"),
    *("run", "infer", "client", "test", "passes", "kernels", "docs", "doctor", "version"),
)
EXTRAS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("uvicorn", "uvloop", "httptools", "starlette", "grpc", "google"), "server"),
    **dict.fromkeys(("prometheus_client", "msgspec", "ml_dtypes"), "server"),
    "watchfiles": "server",
    "onnxruntime": "cpu",
    "cv2": "image",
    "imagesize": "image",
    "soundfile": "audio",
    "soxr": "audio",
    "tokenizers": "text",
    "pygraphviz": "graph",
}
"""The extra of pyproject.toml that brings a module."""


def main(
    words: Sequence[str] | None = None,
    console: Console | None = None,
    given: Mapping[str, object] = MappingProxyType({}),
) -> int:
    """Run one command and return its exit code; `given` is what words cannot say."""
    console = console or Console.standard()
    try:
        status = _run(sys.argv[1:] if words is None else words, console, given)
        console.flush()
        return status
    except UsageError as error:
        console.fail("usage", error.message, error.help)
        return Exit.USAGE
    except CompileError as error:
        console.mistakes(error.diagnostics)
        return Exit.MISTAKES
    except Refusal as error:
        console.fail(f"error[{error.code}]", error.message, error.help)
        return Exit.MISTAKES
    except BrokenPipeError:
        _print_no_more()
        return Exit.GOOD  # whoever read the output has seen enough
    except OutputError as error:
        _print_no_more()
        console.fail("failed", str(error))
        return Exit.FAILED
    except KeyboardInterrupt:
        return 130  # as shells have it for SIGINT
    except RunFailure as error:
        console.fail("failed", error.message, error.help)
        return Exit.FAILED
    except Exception as error:
        return conclude(error, console)


def _print_no_more() -> None:
    """Give what is still to be printed to nobody; Python would complain of it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def conclude(error: Exception, console: Console) -> Exit:
    """Print what an exception means to the caller: a failed run, a missing extra, or a bug."""
    if isinstance(error, ImportError):
        root = (error.name or "").partition(".")[0]
        if root in EXTRAS:
            extra = EXTRAS[root]
            console.fail(
                "failed",
                f"the Python package `{root}` is not installed",
                f"`pip install 'headrace[{extra}]'`",
            )
            return Exit.FAILED
    from ..runtime.request import Code, Fault

    if isinstance(error, Fault) and error.code is not Code.INTERNAL:
        console.fault(error)
        refused = error.code in (Code.INVALID, Code.NOT_FOUND)
        return Exit.MISTAKES if refused else Exit.FAILED
    console.fail("bug", "this is a bug in headrace, not in your files; please report it")
    traceback.print_exception(error)
    return Exit.FAILED


def _run(words: Sequence[str], console: Console, given: Mapping[str, object]) -> int:
    first = words[0] if words else "--help"
    if first in ("-h", "--help"):
        console.print(_help())
        return Exit.GOOD if words else Exit.USAGE
    if first == "--version":
        first = "version"
    if first not in COMMANDS:
        meant = nearest(first, COMMANDS)
        help = f"did you mean `headrace {meant}`?" if meant else f"there are {', '.join(COMMANDS)}"
        raise UsageError(f"there is no command `{first}`", help)
    command = command_of(first)
    parser = _Parser(
        prog=f"headrace {command.name}",
        description=command.text,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.arguments(parser)
    parser.set_defaults(words=tuple(words), **given)
    return command.run(parser.parse_intermixed_args(list(words[1:])), console)


def _help() -> str:
    lines = [f"  {name:9} {command_of(name).summary}" for name in COMMANDS]
    return "\n".join(
        [
            "usage: headrace COMMAND ...\n",
            "A compiler and runtime for multi-model inference pipelines.\n",
            *lines,
            "\n`headrace COMMAND --help` says more of each.",
            "Exit codes: 0 good, 1 mistakes in the input, 2 wrong usage, 3 failed at run time.",
        ]
    )


def command_of(name: str) -> Command:
    """Return a command by its name."""
    module = f"{name}_" if iskeyword(name) else name
    return import_module(f".{module}", __package__).COMMAND


class _Parser(ArgumentParser):
    """Reports wrong words as all other mistakes are reported."""

    def error(self, message: str) -> NoReturn:
        help = f"`{self.prog} --help` lists what it takes"
        word = message.removeprefix("unrecognized arguments: ").split()[0].partition("=")[0]
        if message.startswith("unrecognized") and word.startswith("-"):
            options = [option for action in self._actions for option in action.option_strings]
            meant = nearest(word, options)
            help = f"did you mean `{meant}`?" if meant else help
        raise UsageError(f"{self.prog}: {message}", help)
