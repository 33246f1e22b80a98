"""What holds for all tests: how many examples a property is tried with, and for how long.

Fewer where the slow tests are left out. A test that wants more or fewer than others multiplies
`settings().max_examples`, which is what holds.
"""

import pytest
from hypothesis import settings

# How long one example takes says more of what else the machine does than of the code.
settings.register_profile("full", max_examples=100, deadline=None)
settings.register_profile("quick", max_examples=30, deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hypothesis-profile") is None:
        quick = "not slow" in str(config.getoption("-m"))
        settings.load_profile("quick" if quick else "full")
