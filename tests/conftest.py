"""What holds for all tests: how many examples a property is tried with, and for how long; and that
what is exhaustive waits to be asked for.

Fewer where the slow tests are left out. A test that wants more or fewer than others multiplies
`settings().max_examples`, which is what holds.
"""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.hangs import Watchdog

# How long one example takes says more of what else the machine does than of the code.
# The same examples each time, so that no run fails by chance; who wants others says so, where a
# property is worth a search (`derandomize=False`).
ALL = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("full", ALL, max_examples=100)
settings.register_profile("quick", ALL, max_examples=30)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Watchdog())
    # httpx reads all authorities of the web for each client, in 20 ms; here is none to be trusted.
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)
    if config.getoption("--hypothesis-profile") is None:
        quick = "not slow" in str(config.getoption("-m"))
        settings.load_profile("quick" if quick else "full")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is exhaustive to who asks for it: with `-m exhaustive`, or by its name."""
    if "exhaustive" in str(config.getoption("-m")) or any("::" in one for one in config.args):
        return
    config.hook.pytest_deselected(items=[one for one in items if _is_exhaustive(one)])
    items[:] = [one for one in items if not _is_exhaustive(one)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let no collection of garbage walk over all tests: it takes longer than most of them."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


def _is_exhaustive(test: pytest.Item) -> bool:
    return test.get_closest_marker("exhaustive") is not None
