"""From a tree to graphs: names, types and sizes are resolved, every mistake is reported.

In order of control flow: `items` reads a file's items (`type_expressions`, `constants` in
`constant_order`, `model_items` with `model_parts`, `outside_names`, `model_axes`, `model_pads`,
`model_files`, `other_models`, `function_items`, `python_models`, which look at `python_source` and
`asked`, and `states`) into `entities`; `routines` lowers the bodies of pipelines (`routine_body`),
through `statements`, `expressions`, `calls` (`arguments`, `given`, `ops`), `operators`, `lists`,
`indexing`, `branches` with `merge`, `loops`, `carry` (`loop`), `zeros`, `attempts` (`try`),
`emits`, `controls`; `check_tests` looks at tests. What they share: `session` for one compilation,
`body` for a place in a graph, `scope` for names, `operands` for what an expression stands for,
`literals` and `agree` for types, `mismatch`, `repair` and `batch_axes` for what is said of wrong
ones, `problems` for all that is said.
"""

from dataclasses import dataclass

from ...dsl import ast
from ...dsl.diagnostic import Diagnostic
from ...dsl.source import Source
from ...stdlib.catalog import load_catalog
from ..graph import Graph
from .check_tests import check_test
from .entities import File, Routine
from .items import Loading, warn_of_unused
from .problems import Problems
from .routines import Routines
from .session import Session


@dataclass(frozen=True, slots=True)
class Lowered:
    """What a source means. With an error among `diagnostics` the graphs of broken pipelines are
    missing; warnings leave everything usable. `tests` and `schedules` are as written."""

    graphs: tuple[Graph, ...]
    tests: tuple[ast.Test, ...]
    schedules: tuple[ast.Schedule, ...]
    diagnostics: tuple[Diagnostic, ...]


def lower(
    module: ast.Module,
    source: Source,
    *,
    need_models: bool,
    stubbed: frozenset[str] = frozenset(),
) -> Lowered:
    """Check a module and return the graph of each pipeline it defines.

    With `need_models` every model file must be there and its bytes go into the graph; without,
    files of models whose signature is declared may be missing. So may those of `stubbed` models.
    """
    session = Session(Problems(), load_catalog(), need_models, stubbed)
    loading = Loading(session)
    file = loading.read(module, source)
    routines = Routines(session)
    for routine in loading.routines:
        routines.check(routine)
    tests = tuple(item for item in module.items if isinstance(item, ast.Test))
    for test in tests:
        check_test(test, file, session.catalog, session.problems)
    warn_of_unused(file, session)
    return Lowered(
        graphs=tuple(_graphs(loading.routines, file)),
        tests=tests,
        schedules=tuple(item for item in module.items if isinstance(item, ast.Schedule)),
        diagnostics=session.problems.diagnostics(source.name),
    )


def _graphs(routines: list[Routine], file: File) -> list[Graph]:
    """Return the graphs of the pipelines that the main file defines, in its order."""
    order = {id(item): i for i, item in enumerate(file.module.items)}
    own = [r for r in routines if r.file is file and r.kind == "pipeline"]
    own.sort(key=lambda routine: order[id(routine.declaration)])
    return [routine.graph for routine in own if routine.graph is not None]
