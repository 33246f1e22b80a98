"""`headrace docs`: what the documentation says of one subject."""

from argparse import ArgumentParser, Namespace

from .command import Command, Exit, UsageError
from .console import Console


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("kind", choices=["op"], help="the kind of subject")
    parser.add_argument("name", help="its name, such as image.resize; of a family, all its ops")


def _run(arguments: Namespace, console: Console) -> Exit:
    from ..stdlib.catalog import BARE_FAMILY, load_catalog
    from ..stdlib.reference import op_page, signature

    catalog = load_catalog()
    name: str = arguments.name
    family, dot, bare = name.rpartition(".")
    op = catalog.find(family if dot else None, bare)
    if op is not None:
        console.print(op_page(op))
        return Exit.GOOD
    listed = catalog.family(name)
    if listed is not None:
        console.print(f"{listed.summary}\n")
        for one in listed.ops.values():
            console.print(signature(one))
        return Exit.GOOD
    meant = catalog.nearest(family if dot else None, bare) or catalog.nearest_family(name)
    families = ", ".join(catalog.families)
    help = (
        f"did you mean `{meant.removeprefix(f'{BARE_FAMILY}.')}`?"
        if meant
        else f"`headrace docs op FAMILY` lists the ops of {families}"
    )
    raise UsageError(f"the standard library has no op `{name}`", help)


COMMAND = Command(
    "docs",
    "print what the documentation says of an op",
    "`headrace docs op image.resize` prints its page: parameters, results and an example;\n"
    "`headrace docs op image` lists the ops of a family.",
    _arguments,
    _run,
)
