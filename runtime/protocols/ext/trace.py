"""Extension: the settings of tracing, of all models or of one.

    trace_level  OFF, or TIMESTAMPS: whether requests are traced
    trace_rate   one of so many requests is
    trace_count  how many more are, -1 without end

Where traces go to, and in what form, is set where the server is started.
"""

from typing import Any

from ...access import Access, Caller
from ...request import Code, Fault
from ...service import Service
from ..operation import Arguments, Operation

# served once a server has a tracer: until then it is known, and refused by name
NAMES: tuple[str, ...] = ()


def _settings(_: Service, __: Arguments, ___: Caller) -> Any:  # Any: JSON
    raise Fault(Code.UNSUPPORTED, "the extension trace is not served")


OPERATIONS = (
    Operation(
        "TraceSetting",
        Access.SETTINGS,
        "Not served",
        tuple(
            (method, f"/v2{model}/trace/setting")
            for model in ("", "/models/{name}")
            for method in ("GET", "POST")
        ),
        _settings,
    ),
)
