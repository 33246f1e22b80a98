"""One server process of the toy pipelines for all that attacks what holds by default."""

from collections.abc import Iterator

import pytest

from tests.safety.hosted import Hosted, hosting


@pytest.fixture(scope="session")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosting(tmp_path_factory.mktemp("hosted")) as made:
        yield made
