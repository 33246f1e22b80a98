"""Profiles as files: JSON that a person can read, refused as a whole when anything is off.

```
{"format": "headrace profile 1",
 "profile": {"machine": {...}, "models": [{"model": "<sha256>", ...}], "stages": [...]}}
```
"""

import json
import math
import os
from pathlib import Path
from typing import Final

from ..dsl.diagnostic import Refusal
from .literal_codec import Attachments, Json, Malformed
from .plan_codec import Codec, Codecs
from .profile import ModelTimes, Profile

FORMAT: Final = "headrace profile 1"


class ProfileError(Refusal):
    """A profile file is refused (HR419); the message says why."""


def to_json(profile: Profile) -> str:
    """Return the text of a profile's file."""
    whole = {"format": FORMAT, "profile": _codec().encode(profile)}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def write(profile: Profile, path: "str | os.PathLike[str]") -> None:
    """Write a profile; raises OSError."""
    Path(path).write_text(to_json(profile), encoding="utf-8")


def read(path: "str | os.PathLike[str]") -> Profile:
    """Return the profile in a file; raises ProfileError and nothing else."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _refused(path, "is not text") from error
    try:
        whole: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"is not JSON: {error}") from error
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise _refused(path, f"is not a profile: its `format` is not {FORMAT!r}")
    try:
        profile: Profile = _codec().decode(whole.get("profile"))
        for model in profile.models:
            _require_times(model)
        for stage in profile.stages:
            _require(stage.rows >= 0 and _is_time(stage.seconds), f"`{stage.stage}` took no time")
    except Malformed as error:
        raise _refused(path, f"is malformed: {error}") from error
    return profile


def _codec() -> Codec:
    return Codecs(Attachments()).of(Profile, Profile)


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


def _refused(path: "str | os.PathLike[str]", why: str) -> ProfileError:
    help = "`headrace compile FILE.pipe --measure` writes one"
    return ProfileError("HR419", f"{path} {why}", help)
