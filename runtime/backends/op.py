"""Ops of the standard library, through their reference implementations."""

from ...compiler.plan import OpSegment
from ...stdlib.catalog import Catalog, load_catalog
from ..backend import Backend, Loading
from ..division import Share
from ..load_error import NO_OP, LoadError
from ..op_stage import OpStage


class _Ops:
    """The catalog, read once for the ops of a plan."""

    def __init__(self) -> None:
        self.catalog: Catalog = load_catalog()

    def close(self) -> None:
        """Nothing to give back."""


def open_op(segment: OpSegment, index: int, _share: Share | None, loading: Loading) -> OpStage:
    """Return the stage of an op; raises LoadError where this headrace has none of the name."""
    try:
        op = loading.shared("ops", _Ops).catalog.op(segment.op)
    except KeyError as error:
        message = f"the plan uses the op `{segment.op}`, which this headrace lacks"
        help = "compile the sources again with this headrace, or run a newer one"
        raise LoadError(NO_OP, message, help) from error
    return OpStage(segment, op, index)


BACKEND = Backend(open_op)
