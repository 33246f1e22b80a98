"""`headrace compile`: a source to a plan file."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from . import _engines, _files, _values
from ._samples import samples
from .check import count
from .command import Command, Exit, UsageError
from .console import Console

if TYPE_CHECKING:
    from ..compiler import Compiled
    from ..compiler.profile import Profile


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE.pipe")
    parser.add_argument("-o", "--output", metavar="FILE.plan", help="default: beside the source")
    parser.add_argument("--schedule", metavar="NAME", help="the schedule that holds")
    parser.add_argument(
        "--target",
        metavar="NAME",
        help="the machine that it is for, which need not be here: orin-nano, h200, cpu-x86, ...",
    )
    parser.add_argument(
        "--no-fuse", action="store_true", help="leave stages as written, to see what they give"
    )
    _engines.add_argument(parser, "build the engines that TensorRT is to run into it")
    parser.add_argument(
        "--measure", action="store_true", help="measure the models here, to decide where rows meet"
    )
    parser.add_argument(
        "--profile",
        metavar="FILE",
        help="the figures to decide by; with --measure where to write them (default: FILE.profile)",
    )
    parser.add_argument(
        "--sample",
        action="append",
        default=[],
        metavar="name=value",
        help="an input to measure with, as for `infer`; may be repeated",
    )
    parser.add_argument(
        "--calibrate",
        metavar="PATH",
        help="samples for models in another precision: a file, a folder of them, or an earlier "
        "FILE.calibration (default: what the tests of the source give)",
    )
    parser.add_argument(
        "--tolerance",
        type=_share,
        metavar="SHARE",
        help="fail where a result in another precision is off by more than this share of the "
        "largest, such as 0.02",
    )


def _run(arguments: Namespace, console: Console) -> Exit:
    from ..compiler import plan_file
    from ..compiler.plan import OpSegment

    source = _files.find(arguments.source, _files.SOURCE)
    target = Path(arguments.output or source.with_suffix(_files.PLAN))
    if arguments.measure:
        path = Path(arguments.profile or source.with_suffix(_files.PROFILE))
        profile = _measured(arguments, console)
        _save(profile, path)
        console.print(f"{path}: {count(len(profile.models), 'model')} measured")
    else:
        if arguments.sample:
            raise UsageError("--sample is what `--measure` measures with")
        profile = _files.profile_of(arguments.profile)
        if profile is not None:
            _say_where(profile, arguments.profile, console)
    made = _files.compiled(
        source,
        arguments.schedule,
        console,
        profile,
        again=arguments.measure,
        fuse=not arguments.no_fuse,
        calibrate=arguments.calibrate,
        tolerance=arguments.tolerance,
        target=arguments.target,
    )
    _tell_precisions(made, arguments, source, console)
    plan = made.plan
    try:
        plan_file.write(plan, target)
    except OSError as error:
        raise UsageError(f"`{target}` cannot be written: {error.strerror}") from error
    size = target.stat().st_size
    pipelines = ", ".join(pipeline.name for pipeline in plan.pipelines)
    segments = sum(not isinstance(one, OpSegment) for one in plan.segments)  # as explain counts
    console.print(
        f"{target}: {pipelines} in {count(segments, 'segment')}, "
        f"{size / (1 << 20):.1f} MiB, sha256 {plan_file.plan_hash(target)}"
    )
    _engines.build(plan, arguments, console)
    return Exit.GOOD


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share < float("inf"):
        raise ArgumentTypeError(f"`{text}` is no share above 0, as in 0.05")
    return share


def _tell_precisions(
    made: "Compiled", arguments: Namespace, source: Path, console: Console
) -> None:
    """Say what became of models in another precision, and keep what they were calibrated with."""
    from ..calibrate import SUFFIX
    from ..compiler.precision import calibration_file
    from ..compiler.precision.report import describe

    if not made.rewritten:
        for option in ("calibrate", "tolerance"):
            if getattr(arguments, option) is not None:
                raise UsageError(
                    f"--{option} is for models in another precision, and there are none",
                    "a schedule says so: `read { precision = int8 }`",
                )
    for one in made.rewritten:
        console.print(f"{one.stage} in {describe(one)}")
    if arguments.calibrate is None or Path(arguments.calibrate).suffix == SUFFIX:
        return
    path = source.with_suffix(SUFFIX)
    try:
        calibration_file.write(made.calibration, path)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error
    console.print(f"{path}: {count(len(made.calibration.models), 'model')} calibrated")


def _measured(arguments: Namespace, console: Console) -> "Profile":
    from ..runtime.measure import MeasureConfig, measure

    config = MeasureConfig()
    source = _files.find(arguments.source, _files.SOURCE)
    calibrate = arguments.calibrate
    plan = _files.compiled(source, arguments.schedule, console, calibrate=calibrate).plan
    given = samples(plan, _values.split(arguments.sample)) if arguments.sample else {}
    if not given:
        console.say(f"without --sample, sizes that are only named are taken to be {config.size}")
    with console.apart(), console.progress("measure") as progress:
        found = measure(plan, given, config, progress)
    for stage, reason in found.skipped:
        console.say(f"`{stage}` was not measured: {reason}")
    return found.profile


def _say_where(profile: "Profile", name: str, console: Console) -> None:
    """Say so when figures are of another machine: right for a plan that is served there."""
    from ..runtime.measure import machine

    there, here = profile.machine, machine(profile.machine.threads)
    if there != here:
        console.say(
            f"{name} is of {there.processor} ({there.cores} cores, {there.runtime}), "
            f"here is {here.processor} ({here.cores} cores, {here.runtime})"
        )


def _save(profile: "Profile", path: Path) -> None:
    from ..compiler import profile_file

    if path.suffix != _files.PROFILE:
        raise UsageError(f"`{path}` does not end in {_files.PROFILE}")
    try:
        profile_file.write(profile, path)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error


COMMAND = Command(
    "compile",
    "make a plan of a .pipe file",
    "Writes one file with all that is needed to run: the plan, models, assets and Python sources.\n"
    "The same sources (and profile) give the same bytes.",
    _arguments,
    _run,
)
