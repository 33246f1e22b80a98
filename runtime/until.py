"""How long a thread waits for a time, which may be as far off as a caller or a schedule says."""

import threading


def seconds_until(at: float | None, now: float) -> float | None:
    """Return what to give a wait, None to wait until told. It may end before a time that is
    further off than any wait can be (some 292 years), as any wait may."""
    return None if at is None else min(max(0.0, at - now), threading.TIMEOUT_MAX)
