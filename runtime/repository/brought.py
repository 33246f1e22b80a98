"""Plans that callers bring with a load, where the operator allows it: `VERSION/model.plan` each.

They hold until the next load. What a plan brings runs with the rights of the server, so that one is
refused that holds anything but data: functions and models in Python, native code, engines that an
outside library unpacks as it likes, and addresses of other servers, which this one would ask.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from ...compiler import plan_file
from ...compiler.plan import Plan
from ..protocols.names import shown
from .version import Candidate

_DATA: Final = frozenset({"op", "onnx", "onnx_tensorrt", "onnx_tensorrt_rtx", "openvino"})
"""Backends whose stages are no code and lead nowhere else."""
_NAME: Final = "model.plan"


def brought(files: Mapping[str, bytes], *, code: bool) -> Mapping[int, Candidate]:
    """Return the versions of an app that files hold; with `code` they may hold any plan.

    Raises ValueError where a file is none of them; the candidates do where a plan is refused.
    """
    found: dict[int, Candidate] = {}
    for name, content in files.items():
        number, _, rest = name.partition("/")
        if rest != _NAME or not (number.isascii() and number.isdigit() and len(number) < 10):
            raise ValueError(f"{shown(name)} is no plan of a version: it is called `1/{_NAME}`")
        if int(number) in found:
            raise ValueError(f"there are two files of version {int(number)}")
        found[int(number)] = Candidate(partial(_read, content, code))
    return found


def _read(content: bytes, code: bool) -> Plan:
    plan = plan_file.read(content)
    if not code:
        require_data(plan)
    return plan


def require_data(plan: Plan) -> None:
    """Raise ValueError naming the first stage that is more than data."""
    for segment in plan.segments:
        if segment.backend not in _DATA:
            raise ValueError(
                f"stage `{segment.name}` runs on `{segment.backend}`, which is code or leads to "
                "other servers: that comes from the server's own folder, or from callers where it "
                "is started with `--allow-load-code`"
            )
