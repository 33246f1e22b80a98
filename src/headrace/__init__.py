"""headrace: a compiler and runtime for multi-model inference pipelines.

`compile` makes a plan of a `.pipe` source, `load` makes an `App` of a plan. Importing the package
starts no thread, reads no file and takes no device; what a name needs is imported at its first
use.

In order of control flow: `cli` is the command line; `app` compiles, with `samples` to `calibrate`
by, and has what is `loaded`; `pipeline` calls (`asking` what it is `bound` to), `sequence` calls
what keeps state, `asked` is what callers say beside inputs; `testing` runs a file's tests, with
`expect` for what they say; `client` calls a server, and `stubs` are typed modules for calling
either. `triton` reads repositories of Triton's, `export` writes what other systems serve, `doctor`
looks at the machine; `backend` is what packages need that bring one, `version` ours. Links lead to
the packages below: `runtime`, `compiler`, `stdlib`, `dsl`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .version import VERSION as __version__

if TYPE_CHECKING:
    from .app import App, CompiledPlan, compile, load
    from .client import Client
    from .compiler.plan_file import PlanError
    from .dsl.diagnostic import CompileError
    from .pipeline import Pipeline
    from .runtime.context import Context
    from .runtime.observe.trace import Trace
    from .runtime.record import Record
    from .runtime.request import Code, Fault, RequestError

__all__ = [
    "App",
    "Client",
    "Code",
    "CompileError",
    "CompiledPlan",
    "Context",
    "Fault",
    "Pipeline",
    "PlanError",
    "Record",
    "RequestError",
    "Trace",
    "__version__",
    "compile",
    "load",
]

_HOMES = {
    "App": ".app",
    "Client": ".client",
    "Code": ".runtime.request",
    "CompileError": ".dsl.diagnostic",
    "CompiledPlan": ".app",
    "Context": ".runtime.context",
    "Fault": ".runtime.request",
    "Pipeline": ".pipeline",
    "PlanError": ".compiler.plan_file",
    "Record": ".runtime.record",
    "RequestError": ".runtime.request",
    "Trace": ".runtime.observe.trace",
    "compile": ".app",
    "load": ".app",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value  # found at once from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
