"""Extension: plain JSON in and out, and server-sent events.

`generate_codec` reads and writes it.
"""

from ...access import Access
from ..operation import Operation, of_model

NAMES = ("generate",)

GENERATE = Operation("", Access.INFER, "Run a model on plain JSON", of_model("POST", "/generate"))
GENERATE_STREAM = Operation(
    "",
    Access.INFER,
    "Run a model on plain JSON; an event for each response",
    of_model("POST", "/generate_stream"),
)
OPERATIONS = (GENERATE, GENERATE_STREAM)
