"""A plan that cannot be loaded on this machine: with a code that has a page, and the cure."""

from ..dsl.diagnostic import Refusal

NO_DEVICE, NO_RUNTIME, TWO_RUNTIMES, BAD_SOURCE, BAD_MODEL, NO_OP, NO_CORE, NO_WARMUP = (
    f"HR{number}" for number in range(501, 509)
)
NO_BACKEND, OTHER_MODEL = "HR509", "HR510"
NO_ENGINE = "HR514"


class LoadError(Refusal):
    """`code` is HR501 to HR510, or HR514; `help` says what to install or do."""
