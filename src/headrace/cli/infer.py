"""`headrace infer`: one request, to a plan here or to a server."""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..dsl.literals import DURATION_SECONDS, LiteralError, read_quantity
from ..dsl.types import DType, ListType, OptionalType, TensorType, Type
from . import _files, _reaching, _tracing, _values
from .command import Command, Exit, RunFailure, UsageError
from .console import Console

if TYPE_CHECKING:
    from ..app import App
    from ..compiler.plan import PipelinePlan, Plan
    from ..runtime.observe.trace import Trace


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="a .plan or .pipe file, grpc://host:port/pipeline or http://host:port/pipeline",
    )
    parser.add_argument("inputs", nargs="*", metavar="name=value", help="or name=@file")
    parser.add_argument("--pipeline", metavar="NAME", help="which one, when there are several")
    parser.add_argument("--schedule", metavar="NAME", help="the schedule that holds, of a source")
    parser.add_argument("--timeout", metavar="TIME", help="such as 500ms or 2s")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    _reaching.add_arguments(parser)
    _tracing.add_arguments(parser)


def _run(arguments: Namespace, console: Console) -> Exit:
    given = _values.split(arguments.inputs)
    timeout = _seconds(arguments.timeout) if arguments.timeout is not None else None
    trace: Trace | None = None
    if "://" in arguments.target:
        if arguments.schedule is not None:
            raise UsageError("--schedule is for sources; a server has chosen its own")
        if _tracing.wanted(arguments) or arguments.no_fuse:
            raise UsageError(
                "--trace is for a plan here", "a server writes traces with `headrace run --trace`"
            )
        results, seconds = _ask(arguments, given, timeout)
    else:
        from ..runtime.request import Fault

        _reaching.refuse(arguments)
        plan = _files.plan_of(
            arguments.target, arguments.schedule, console, fuse=not arguments.no_fuse
        )
        pipeline = plan.pipeline(_chosen(plan, arguments.pipeline))
        values = _values.read(given, wanted(pipeline))
        traced = _tracing.wanted(arguments)
        if traced and "trace" in values:
            raise UsageError("an input called `trace` stands in the way of --trace")
        options: dict[str, Any] = {"trace": True} if traced else {}  # Any: as of a call
        options |= {} if timeout is None else {"timeout": timeout}
        with console.apart(), _load(plan, console) as app:
            called = app[pipeline.name]
            # what keeps state gets the first request of a sequence
            call = called if pipeline.idle is None else called.sequence()
            start = time.perf_counter()
            try:
                record = call(**values, **options)
            except Fault as fault:
                if fault.trace is not None:
                    _tracing.show(fault.trace, arguments, console)
                raise
        seconds = time.perf_counter() - start
        if traced:
            record, trace = record
        results = {f.name: value for f, value in zip(pipeline.results, record, strict=True)}
    _show(results, arguments.json, console)
    if trace is not None:
        _tracing.show(trace, arguments, console)
    console.say(f"answered in {_milliseconds(seconds)} ms")
    return Exit.GOOD


def _ask(
    arguments: Namespace, given: Mapping[str, Sequence[str]], timeout: float | None
) -> tuple[Mapping[str, object], float]:
    """Return a server's answer and the seconds that it took, without those to connect and to learn
    what the pipeline takes; raises Fault as a plan here would."""
    from ..runtime.request import Code, Fault

    target: str = arguments.target
    try:
        url = urlsplit(target)
        _ = url.port
    except ValueError as error:
        raise UsageError(f"`{target}` is no address: {error}") from None
    if not url.hostname:
        raise UsageError(f"`{target}` names no server", "write `grpc://host:port/pipeline`")
    with _reaching.reach(f"{url.scheme}://{url.netloc}", timeout, arguments) as client:
        try:
            remote = client[
                _named(url.path, arguments.pipeline) or _only(target, client.pipelines())
            ]
            call = remote if remote.plan.idle is None else remote.sequence()
            values = _values.read(given, wanted(remote.plan))
            start = time.perf_counter()
            answer = call(**values)
            seconds = time.perf_counter() - start
        except Fault as fault:
            if fault.code is Code.INTERNAL:  # a bug there, of which nothing is to be seen here
                raise RunFailure(str(fault)) from fault
            raise
    return dict(zip([one.name for one in remote.plan.results], answer, strict=True)), seconds


def _named(path: str, pipeline: str | None) -> str:
    """Return the pipeline that is asked for, empty where none is."""
    return pipeline or path.strip("/").removeprefix("v2/models/")


def _only(target: str, names: Sequence[str]) -> str:
    """Return the pipeline of a server that has a single one."""
    if len(names) == 1:
        return names[0]
    there = f"there are {', '.join(names[:20])}" if names else "the server has none ready"
    raise UsageError(
        f"which pipeline? {there}", f"write `{target.rstrip('/')}/NAME`, or `--pipeline NAME`"
    )


def _load(plan: "Plan", console: Console) -> "App":
    from ..app import load

    with console.progress("load") as progress:
        return load(plan, progress=progress)


def _chosen(plan: "Plan", wanted: str | None) -> str:
    names = [pipeline.name for pipeline in plan.pipelines]
    if wanted is None:
        if len(names) == 1:
            return names[0]
        raise UsageError(
            f"there are several pipelines: {', '.join(names)}", "say which with `--pipeline NAME`"
        )
    if wanted not in names:
        near = _values.nearest(wanted, names)
        help = f"did you mean `{near}`?" if near else f"there are {', '.join(names)}"
        raise UsageError(f"there is no pipeline `{wanted}`", help)
    return wanted


def wanted(pipeline: "PipelinePlan") -> Mapping[str, _values.Wanted]:
    """Return what each input of a pipeline takes."""
    return {
        parameter.field.name: _wanted(parameter.field.type, pipeline.batch is not None)
        for parameter in pipeline.parameters
    }


def _wanted(kind: Type, many: bool) -> _values.Wanted:
    match kind:
        case OptionalType(item):
            return _wanted(item, many)
        case ListType(item):
            return _wanted(item, True)
        case TensorType(dtype, dims):
            content = {DType.STRING: _values.Content.TEXT, DType.BYTES: _values.Content.BYTES}
            found = content.get(dtype, _values.Content.NUMBER)
            return _values.Wanted(found, many or bool(dims))
        case _:
            raise AssertionError("a plan holds no unknown types")


def _seconds(text: str) -> float:
    try:
        value, unit = read_quantity(text)
    except LiteralError as error:
        raise UsageError(f"--timeout: {error.message}", error.help) from None
    if unit not in DURATION_SECONDS:
        raise UsageError(f"--timeout: `{text}` is no duration", "write `500ms` or `2s`")
    return float(value)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f}" if seconds >= 0.01 else f"{seconds * 1e3:.2f}"


def _show(results: Mapping[str, object], as_json: bool, console: Console) -> None:
    from . import _table

    if as_json:
        console.print(_table.as_json(results))
        return
    table = _table.as_table(results)
    if table.heading:
        console.print(console.bold(table.heading))
    for line in table.lines:
        console.print(line)


COMMAND = Command(
    "infer",
    "ask a plan or a server for one answer",
    "Inputs are given as name=value. Text and bytes stand as they are, numbers and tensors are\n"
    "JSON; name=@file takes what a file holds (.npy and .json for tensors). Where many values are\n"
    "taken a name may be repeated.",
    _arguments,
    _run,
)
