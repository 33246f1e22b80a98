"""Every behaviour that was set down has a test by its name."""

import re
from pathlib import Path


def test_each_behaviour_has_a_test_by_its_name() -> None:
    here = Path(__file__).parent
    names = {
        name
        for path in here.rglob("test_*.py")
        for name in re.findall(r"def test_(b\d\d)_", path.read_text("utf-8"))
    }
    assert names == {f"b{number:02}" for number in range(1, 30)}
