"""Profiles as files.

```
{"format": "headrace profile 1",
 "profile": {"machine": {...}, "models": [{"model": "<sha256>", ...}], "stages": [...]}}
```
"""

import math
from typing import Final

from ..dsl.diagnostic import Refusal
from .json_file import JsonFile
from .literal_codec import Malformed
from .profile import ModelTimes, Profile


class ProfileError(Refusal):
    """A profile file is refused (HR419); the message says why."""


def _check(profile: Profile) -> None:
    for model in profile.models:
        _require_times(model)
    for stage in profile.stages:
        _require(stage.rows >= 0 and _is_time(stage.seconds), f"`{stage.stage}` took no time")


def _require_times(model: ModelTimes) -> None:
    rows = [timing.rows for timing in model.timings]
    _require(rows[:1] == [1], f"`{model.stage}` has no time of one row")
    _require(rows == sorted(set(rows)), f"the times of `{model.stage}` are not by rising rows")
    _require(all(_is_time(one.seconds) for one in model.timings), f"`{model.stage}` took no time")


def _is_time(seconds: float) -> bool:
    return math.isfinite(seconds) and seconds > 0


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Malformed(otherwise)


_HELP: Final = "`headrace compile FILE.pipe --measure` writes one"
_FILE: Final = JsonFile(Profile, "profile", _check, ProfileError, "HR419", _HELP)
to_json, write, read = _FILE.to_json, _FILE.write, _FILE.read
