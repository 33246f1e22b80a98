"""Runs of made-up rows when a plan is loaded, so that no request pays for the first of its size."""

from collections.abc import Sequence

from ..compiler.plan import ModelSegment, PythonSegment
from .devices.device import Device, DeviceError
from .load_error import NO_WARMUP, LoadError
from .metrics import StageCell
from .rows import Rows, Value, as_array
from .stage import Stage, StageError, StageGone
from .stand_ins import smallest, stand_ins


def warm_up(segment: ModelSegment | PythonSegment, stage: Stage, device: Device) -> None:
    """Run a stage with each of its `warmup` numbers of rows; raises LoadError when a run fails.
    What it takes is not counted."""
    host = isinstance(segment, PythonSegment) or segment.told or segment.home == "cpu"
    for rows in segment.service.warmup:
        items: list[Value] = []
        try:
            items = stand_ins(segment, smallest(segment))
            stream, name = device.stream(), segment.name
            values = (
                items if host else [device.upload(as_array(item), name, stream) for item in items]
            )
            for _ in range(_runs(segment)):
                columns = _columns(segment, values, rows)
                stage.run_together(columns, rows, StageCell())
        except (StageError, StageGone, DeviceError) as error:
            why, help = _told(error)
            shown = ", ".join(
                f"`{field.name}` {_shown(item)}"
                for field, item in zip(segment.signature.params, items, strict=False)
            )
            row = "row" if rows == 1 else "rows"
            raise LoadError(
                NO_WARMUP,
                f"stage `{segment.name}`, {segment.place}: its run with {rows} {row} of "
                f"{shown or 'its inputs'} at loading fails: {why}",
                help,
            ) from error


def _runs(segment: ModelSegment | PythonSegment) -> int:
    """Return how many runs of one number of rows warm a stage up: one of each object or process of
    its own; two of ONNX Runtime on the host, which lays out memory for a size in its second."""
    if isinstance(segment, PythonSegment) or segment.backend == "triton_python":
        return segment.instances or 1
    return 2 if segment.backend == "onnx" and segment.home == "cpu" else 1


def _told(error: StageError | StageGone | DeviceError) -> tuple[str, str]:
    """Return why a run has failed, and what to do."""
    if isinstance(error, DeviceError):
        return str(error), "leave `warmup` out, or let the device have room and nobody else"
    return error.message, "leave `warmup` out, or say in its signature which sizes it takes"


def _columns(
    segment: ModelSegment | PythonSegment, values: Sequence[Value], rows: int
) -> list[Rows]:
    """Return columns of equal rows, anew for each run: a column keeps its stack."""
    axes = segment.input_axes if isinstance(segment, ModelSegment) else [0] * len(values)
    told = [0] * (len(values) - len(axes))
    return [
        Rows.shared(value, rows) if axis is None else Rows.of([value] * rows)
        for value, axis in zip(values, (*axes, *told), strict=True)
    ]


def _shown(item: Value) -> str:
    if isinstance(item, list):
        return f"a list of {_shown(item[0])}"
    array = as_array(item)
    return f"{array.dtype}{list(array.shape)}"
