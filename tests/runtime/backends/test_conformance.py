"""Every backend is held to the same: dtypes, sizes, batches, threads, wrong files, closing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.dsl.types import DType
from tests.runtime.backends.checks import CHECKS, Check, dtype, refuses_dtype
from tests.runtime.backends.makers import Maker, Servers, makers
from tests.runtime.backends.table import PAGE, documented, dtypes, held_to, written

SERVERS = Servers()
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)
"""Libraries warn of their own ways to write models, which only the makers use."""

MAKERS = [
    pytest.param(maker, id=maker.name, marks=[pytest.mark.slow] if maker.slow else [])
    for maker in makers(SERVERS)
]


@pytest.fixture(scope="module", autouse=True)
def servers() -> Iterator[None]:
    yield
    SERVERS.stack.close()


@pytest.fixture(params=MAKERS)
def maker(request: pytest.FixtureRequest) -> Maker:
    found: Maker = request.param
    if (missing := found.missing()) is not None:
        pytest.skip(missing)
    return found


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.__name__)
def test_a_backend_holds_to(check: Check, maker: Maker, tmp_path: Path) -> None:
    check(maker, tmp_path)


@pytest.mark.parametrize("one", list(DType), ids=lambda one: one.value)
def test_a_backend_gives_back_what_it_got_of_each_dtype_or_refuses_it(
    one: DType, maker: Maker, tmp_path: Path
) -> None:
    if len(maker.lacks) == len(DType) or one not in maker.tries:
        pytest.skip("the same library or codec is tried elsewhere")
    if one in maker.lacks:
        refuses_dtype(maker, tmp_path, one)
    else:
        dtype(maker, tmp_path, one)


def test_the_table_of_the_documentation_is_that_of_these_tests() -> None:
    wanted = {maker.name: (held_to(maker), dtypes(maker)) for maker in makers(SERVERS)}
    assert documented() == wanted


def test_what_was_tried_takes_its_place_in_the_table_and_nowhere_else() -> None:
    page = PAGE.read_text()
    line = "| `onnx` | onnxruntime 9 | **no_rows fails** | all |"
    changed = written(page, {"onnx": line}, "2030-01-02 with Python 3.20")
    old, new = page.splitlines(), changed.splitlines()
    differing = [after for before, after in zip(old, new, strict=True) if before != after]
    assert len(differing) == 2
    assert differing[0].startswith("Tried on 2030-01-02 with Python 3.20 ")
    assert differing[1] == line
