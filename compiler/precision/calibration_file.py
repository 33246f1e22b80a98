"""Calibrations as files: JSON, refused as a whole when anything is off.

```
{"format": "headrace calibration 1",
 "calibration": {"models": [{"model": "<sha256>", "stage": "read", "ranges": [...], ...}]}}
```
"""

import json
import math
import os
from pathlib import Path
from typing import Final

from ...dsl.diagnostic import Refusal
from ..literal_codec import Attachments, Json, Malformed
from ..plan_codec import Codec, Codecs
from .calibration import Calibration

FORMAT: Final = "headrace calibration 1"


class CalibrationError(Refusal):
    """A calibration file is refused (HR434); the message says why."""


def to_json(calibration: Calibration) -> str:
    """Return the text of a calibration's file."""
    whole = {"format": FORMAT, "calibration": _codec().encode(calibration)}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def write(calibration: Calibration, path: "str | os.PathLike[str]") -> None:
    """Write a calibration; raises OSError."""
    Path(path).write_text(to_json(calibration), encoding="utf-8")


def read(path: "str | os.PathLike[str]") -> Calibration:
    """Return the calibration in a file; raises CalibrationError and nothing else."""
    try:
        whole: Json = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"is not JSON: {error}") from error
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise _refused(path, f"is not a calibration: its `format` is not {FORMAT!r}")
    try:
        calibration: Calibration = _codec().decode(whole.get("calibration"))
    except Malformed as error:
        raise _refused(path, f"is malformed: {error}") from error
    for model in calibration.models:
        for one in model.ranges:
            if not (math.isfinite(one.low) and math.isfinite(one.high) and one.low <= one.high):
                raise _refused(
                    path, f"is malformed: `{one.tensor}` of `{model.stage}` has no range"
                )
    return calibration


def _codec() -> Codec:
    return Codecs(Attachments()).of(Calibration, Calibration)


def _refused(path: "str | os.PathLike[str]", why: str) -> CalibrationError:
    help = "`headrace compile FILE.pipe --calibrate SAMPLES` writes one"
    return CalibrationError("HR434", f"{path} {why}", help)
