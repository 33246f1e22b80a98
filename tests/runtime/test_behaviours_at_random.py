"""Behaviours B02 to B24 in every interleaving that a seed finds. `scenes.py` tells the stories."""

import sys
from collections.abc import Iterator

import pytest

from tests.runtime.scene_plans import SEEN
from tests.runtime.scenes import SCENES
from tests.runtime.thousands import THOUSANDS

QUICK = 30


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    sys.modules.pop(SEEN, None)


@pytest.mark.parametrize("scene", SCENES)
def test_thirty_seeds_find_nothing(scene: str) -> None:
    for seed in range(QUICK):
        play(scene, seed)


@pytest.mark.parametrize("block", THOUSANDS)
@pytest.mark.parametrize("scene", SCENES)
def test_ten_thousand_seeds_find_nothing(scene: str, block: int) -> None:
    for seed in range(block * 1000, (block + 1) * 1000):
        play(scene, seed)


def play(scene: str, seed: int) -> None:
    try:
        SCENES[scene](seed)
    except BaseException as error:
        error.add_note(f"scene {scene}, seed {seed}")
        raise
