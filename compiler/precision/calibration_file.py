"""Calibrations as files.

```
{"format": "headrace calibration 1",
 "calibration": {"models": [{"model": "<sha256>", "stage": "read", "ranges": [...], ...}]}}
```
"""

import math
from typing import Final

from ...dsl.diagnostic import Refusal
from ..json_file import JsonFile
from ..literal_codec import Malformed
from .calibration import Calibration


class CalibrationError(Refusal):
    """A calibration file is refused (HR434); the message says why."""


def _check(calibration: Calibration) -> None:
    for model in calibration.models:
        for one in model.ranges:
            if not (math.isfinite(one.low) and math.isfinite(one.high) and one.low <= one.high):
                raise Malformed(f"`{one.tensor}` of `{model.stage}` has no range")


_HELP: Final = "`headrace compile FILE.pipe --calibrate SAMPLES` writes one"
_FILE: Final = JsonFile(Calibration, "calibration", _check, CalibrationError, "HR434", _HELP)
to_json, write, read = _FILE.to_json, _FILE.write, _FILE.read
