"""The command line: `headrace COMMAND ...`.

In order of control flow: `main` reads the words and turns what goes wrong into an exit code;
`command` says what a command is and `console` where it prints; each other file is one command,
or, with an underscore, a part of one: `_files` finds sources and plans, `_values` reads inputs,
`_reaching` finds servers, `_table` shows results. Of `run`, `_loading` fills the repository with
what `_serving` finds, `_scratch` has its files, and `_processes` starts several servers, which are
`_children`: `_apart` says what these cannot do, `_kept` what they load.

Exit codes: 0 good, 1 mistakes in the input, 2 wrong usage, 3 failed at run time.
"""

from .main import main

__all__ = ["main"]
