"""What several processes that serve together cannot do right, each with why and a cure.

Callers come to any of them, and what changes a server would change the one that is asked, and none
that is started anew.
"""

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from .command import UsageError
from .console import Console

if TYPE_CHECKING:
    from ..compiler.plan import Plan
    from ..runtime.access import Policy

Refusal: TypeAlias = tuple[str, str]
"""Why, and a cure."""

_ONE: Final = "leave `--processes` out"


def of_words(arguments: Namespace, policy: "Policy") -> list[Refusal]:
    """Return what is wrong with how the command is called."""
    from ..runtime.access import OPEN, Access

    changing = [access for access in Access if access not in OPEN and policy.serves(access)]
    allowed = " and ".join(access.value for access in changing)
    control = "--model-control-mode" if arguments.model_control_mode else "--control"
    watch = "--watch" if arguments.watch else f"{control} poll"
    refused = (
        (sys.platform != "linux", "wants Linux, which spreads connections over processes", _ONE),
        (
            arguments.watch or arguments.control == "poll",
            f"does not go with {watch}: processes would change at different times",
            f"{_ONE}, or start the server anew after a change",
        ),
        (
            changing,
            f"does not go with callers who may ask for {allowed}: that would change one process",
            f"{_ONE}, or {control}, --allow and tokens for {allowed}",
        ),
        (
            not arguments.exit_on_error,
            "does not go with --exit-on-error=false: processes might serve different models",
            f"{_ONE}, or name a folder with the models that can be loaded",
        ),
        (
            arguments.trace_file,
            "does not go with --trace-file: a file has one writer",
            "send traces to a collector, with `--otel URL`",
        ),
        (
            arguments.grpc_carrier == "pygrpc-native",
            "does not go with --grpc-carrier pygrpc-native, which works outside of the "
            "interpreter's lock",
            f"{_ONE}, or --grpc-carrier",
        ),
    )
    return [(why, cure) for applies, why, cure in refused if applies]


def of_plan(plan: "Plan", *, resources: bool) -> Iterator[Refusal]:
    """Yield what of a plan is kept between requests, or with `resources` counted over them."""
    for pipeline in plan.pipelines:
        if pipeline.idle is not None:
            yield (
                f"does not go with `{pipeline.name}`, which keeps states between the requests of a "
                "sequence: each of them may come to another process",
                f"{_ONE}, or serve `{pipeline.name}` by a server of its own",
            )
    if resources and (taken := _resources(plan)):
        names = ", ".join(f"`{pipeline.name}`" for pipeline in plan.pipelines)
        yield (
            f"does not go with the rate limiter of {names}: each process would have all of "
            f"{', '.join(f'`{name}`' for name in taken)}",
            f"{_ONE}, or `--rate-limit execution_count`",
        )


def _resources(plan: "Plan") -> list[str]:
    from ..compiler.plan import OpSegment

    services = (one.service for one in plan.segments if not isinstance(one, OpSegment))
    return sorted({name for service in services for name, _ in service.resources})


def refuse(found: Sequence[Refusal], console: Console) -> None:
    """Raise UsageError for the last, once the others are told."""
    *others, last = dict.fromkeys(found)
    for why, cure in others:
        console.fail("usage", f"--processes {why}", cure)
    raise UsageError(f"--processes {last[0]}", last[1])
