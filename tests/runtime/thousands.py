"""Ten thousand random orders in blocks of a thousand: the first is a slow test, the others are for
who asks for all of them."""

from typing import Final

import pytest

THOUSANDS: Final = [
    pytest.param(block, marks=pytest.mark.exhaustive if block else pytest.mark.slow)
    for block in range(10)
]
