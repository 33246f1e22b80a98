"""`engine { workspace = 1GiB, refit = on }` of a stage that TensorRT runs, and `device = dla(0)`;
its `sizes` are read in `schedule_sizes.py`."""

from collections.abc import Sequence
from typing import Final

from ..dsl import ast
from ..dsl.diagnostic import Diagnostic
from . import schedule_values as read
from .plan import ENGINES
from .policies import EngineBuild
from .schedule_service import Stage
from .schedule_values import Keys, Mistake, Section

ENGINE_KEYS: Final = Keys(
    "`engine`",
    (
        *("sizes", "workspace", "level", "refit", "weight_budget"),
        *("version_compatible", "hardware_compatible"),
    ),
)
ON_DLA: Final = "gpu:0"
"""In whose memory a DLA finds its values: boards that have one have one GPU."""

_LEVELS: Final = 5
_CORE: Final = "a DLA runs what TensorRT builds for it"


def take_core(section: Section, entries: Sequence[ast.Setting], backend: str | None) -> int | None:
    """Take `device = dla(0)`; None where another device is named, or none."""
    setting = next((one for one in entries if one.key.text == "device"), None)
    match setting.value if setting is not None else None:
        case ast.Call(
            callee=ast.Name(text="dla"),
            arguments=(ast.Argument(name=None, value=ast.Number(value=int(core))),),
        ):
            return section.take("device", lambda s: _core(s, core, backend))
        case _:
            return None


def _core(setting: ast.Setting, core: int, backend: str | None) -> int:
    if backend != "tensorrt":
        message = f"`dla({core})` has no effect without TensorRT: {_CORE}"
        raise Mistake("HR403", message, setting.span, "", "add `backend = tensorrt`")
    return core


def read_engine(
    section: Section,
    stage: Stage,
    backend: str | None,
    core: int | None,
    diagnostics: list[Diagnostic],
) -> EngineBuild | None:
    """Take `engine { }`; None where all is as TensorRT has it. Its `sizes` are read apart."""
    if backend not in ENGINES:
        message = f"`engine` has no effect on `{stage.name}`: TensorRT does not run it"
        section.refuse("engine", "HR403", message, "add `backend = tensorrt`")
        return None
    found = section.take("engine", lambda s: _engine(s, core, diagnostics))
    return found if found is not None else (EngineBuild(core) if core is not None else None)


def _engine(
    setting: ast.Setting, core: int | None, diagnostics: list[Diagnostic]
) -> EngineBuild | None:
    section = Section(ENGINE_KEYS, read.entries(setting))
    section.take("sizes", read.entries)
    found = EngineBuild(
        core,
        section.take("workspace", read.size),
        section.take("level", _level),
        section.take("refit", read.word("on")) is not None,
        section.take("weight_budget", read.size),
        section.take("version_compatible", read.word("on")) is not None,
        section.take("hardware_compatible", read.word("on")) is not None,
    )
    section.close(setting, diagnostics)
    return found if found != EngineBuild() else None


def _level(setting: ast.Setting) -> int:
    level = read.whole(setting, read.value(setting), least=0)
    if level > _LEVELS:
        message = f"`level` is {_LEVELS} at most: the builder has no more"
        raise Mistake("HR406", message, read.value(setting).span)
    return level
