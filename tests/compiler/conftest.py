"""What the tests of the compiler ask for by name."""

import pytest

from tests.compiler.make_graphs import GraphMaker


@pytest.fixture
def make() -> GraphMaker:
    return GraphMaker()
