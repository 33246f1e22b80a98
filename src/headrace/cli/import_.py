"""`headrace import triton DIR -o app/`: what another system serves, as sources."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ..dsl.diagnostic import Severity
from .command import Command, Exit, UsageError
from .console import Console

if TYPE_CHECKING:
    from ..compiler.plan import Plan


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("kind", choices=("triton",), help="triton: folders of models")
    parser.add_argument("folders", metavar="DIR", nargs="+", help="a model repository")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="a new folder")
    parser.add_argument("--model-config-name", metavar="NAME", help="of MODEL/configs/NAME.pbtxt")
    parser.add_argument(
        "--cache",
        type=int,
        default=64,
        metavar="MIB",
        help="what a model with `response_cache` may keep; default: 64",
    )
    parser.add_argument(
        "--in-process",
        action="store_true",
        help="run Python models in the server's own process, where they can be (`isolate = off`)",
    )


def _run(arguments: Namespace, console: Console) -> Exit:
    from ..export.triton.light import restore
    from ..triton.check import check
    from ..triton.importing import write
    from ..triton.repository import read
    from ..triton.serving import Options
    from ..triton.translate.schedule import Serving

    folders = tuple(map(Path, arguments.folders))
    for one in folders:
        if not one.is_dir():
            raise UsageError(f"there is no folder `{one}`")
    out = Path(arguments.output)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"`{out}` is there already and not empty", "name a new folder")
    if len(folders) == 1 and (plan := restore(folders[0])) is not None:
        return _write_plan(plan, out / f"{folders[0].resolve().name}.plan", console)
    repository = read(folders, arguments.model_config_name)
    found = check(repository)
    if found:
        console.mistakes(found)
    if any(one.severity is Severity.ERROR for one in found):
        return Exit.MISTAKES
    options = Options(
        serving=Serving(cache=arguments.cache << 20, in_process=arguments.in_process),
        config_name=arguments.model_config_name,
    )
    imported = write(repository, out, options)
    for source in imported.sources:
        console.print(str(source))
    for note in imported.notes:
        console.say(note)
    if imported.mistakes:
        console.mistakes(imported.mistakes)
    return Exit.MISTAKES if imported.mistakes else Exit.GOOD


def _write_plan(plan: "Plan", path: Path, console: Console) -> Exit:
    """Write the plan that a repository was exported from, which says more than the repository."""
    from ..compiler import plan_file

    path.parent.mkdir(parents=True, exist_ok=True)
    plan_file.write(plan, path)
    console.print(str(path))
    console.say(
        "`headrace export` has made this repository: this is the plan that it was made of, and "
        "nothing that was changed in its config.pbtxt files since"
    )
    return Exit.GOOD


COMMAND = Command(
    "import",
    "turn what another system serves into sources",
    "Writes a .pipe file for each model of a Triton repository, copies the files that it names,\n"
    "and makes tests of what models are warmed up with. `headrace run DIR` serves the result.",
    _arguments,
    _run,
)
