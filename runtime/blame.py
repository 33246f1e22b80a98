"""Failures get an address: pipeline, stage, item and place in the source."""

import traceback

from .devices.device import DeviceError, ResidencyError
from .flow import Work
from .request import Code, Dropped, Fault, OverLimit
from .stage import StageError, StageGone


def blame(error: Exception, work: Work, pipeline: str, row: int | None = None) -> Fault:
    """Return the fault of a work whose stage failed; `row` overrides what the error says."""
    if isinstance(error, Fault):
        return error
    code, message = Code.INTERNAL, f"a bug in headrace: {type(error).__name__}: {error}"
    cause: BaseException = error
    detail, retry_after, at = "", None, None
    if isinstance(error, StageError):
        code, message, detail = error.code, error.message, error.detail
        row = error.row if row is None else row
        cause, at = error.__cause__ or error, error.at
    elif isinstance(error, StageGone):
        code, message, detail = error.code, error.message, error.detail
        retry_after, at = error.retry_after, error.at
    elif isinstance(error, ResidencyError | DeviceError):
        code, message = Code.FAILED, str(error)
    if row is None and work.group.count == 1:
        row = 0
    stage, place = at or (work.stage.name, work.place)
    fault = Fault(
        code,
        message,
        pipeline=pipeline,
        stage=stage,
        item=work.group.path(row) if row is not None else (),
        place=place,
        detail=detail or "".join(traceback.format_exception(cause)),
        retry_after=retry_after,
    )
    fault.__cause__ = cause
    return fault


def own_fault(error: Exception, pipeline: str) -> Fault:
    """Return what ends a request that failed outside a stage: its fault, or a bug of ours."""
    if isinstance(error, Fault):
        error.pipeline = error.pipeline or pipeline
        return error
    fault = Fault(
        Code.INTERNAL,
        f"a bug in headrace: {type(error).__name__}: {error}",
        pipeline=pipeline,
        detail="".join(traceback.format_exception(error)),
    )
    fault.__cause__ = error
    return fault


def over_limit(pipeline: str, work: Work) -> Fault:
    """Return the fault of a work that a `try` has no more time for."""
    return OverLimit(pipeline=pipeline, stage=work.stage.name, place=work.place)


def late(pipeline: str, work: Work | None = None) -> Fault:
    """Return the fault of a request whose time is up."""
    return Fault(
        Code.DEADLINE,
        "the deadline has passed; what was left has not been run",
        pipeline=pipeline,
        stage=work.stage.name if work is not None else None,
        place=work.place if work is not None else None,
    )


def stuck(pipeline: str, work: Work, why: str) -> Fault:
    """Return the fault of a work that would wait for ever."""
    return Fault(
        Code.FAILED,
        f"{why}: none of them would go on",
        pipeline=pipeline,
        stage=work.stage.name,
        place=work.place,
    )


def hopeless(pipeline: str, work: Work | None, least: float) -> Fault:
    """Return the fault of a request whose time will be up before what is left could have run."""
    return Dropped(
        f"what is left takes {least:.3g} s at the least, more than until the deadline; it has not "
        "been run",
        pipeline=pipeline,
        stage=work.stage.name if work is not None else None,
        place=work.place if work is not None else None,
    )


def too_large(pipeline: str, size: int) -> Fault:
    """Return the fault of a request whose inputs are more than is ever taken in."""
    message = f"the inputs are {size} bytes, more than are taken in at all"
    return Fault(Code.INVALID, message, pipeline=pipeline)


def overloaded(
    pipeline: str,
    work: Work | None = None,
    retry_after: float | None = None,
    reason: str = "too many requests wait already",
) -> Fault:
    """Return the fault of a request for which there is no room or no time."""
    when = "later" if retry_after is None else f"in {retry_after:.3g} s"
    return Fault(
        Code.OVERLOADED,
        f"{reason}; try again {when}",
        pipeline=pipeline,
        stage=work.stage.name if work is not None else None,
        place=work.place if work is not None else None,
        retry_after=retry_after,
    )
