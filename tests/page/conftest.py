"""A browser, and servers for it to look at."""

from collections.abc import Iterator

import pytest

from tests.page.browser import Browser, browser, programs


@pytest.fixture(scope="session")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if programs() is None:
        pytest.skip("chromium and chromedriver are not installed")
    with browser(tmp_path_factory.mktemp("profile")) as window:
        yield window
