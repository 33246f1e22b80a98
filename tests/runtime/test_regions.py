"""Regions of shared memory: what may be registered, and what can be read and written of them."""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.runtime.regions import Place, Regions, RegionsConfig
from headrace.runtime.request import Code, Fault, RequestError
from tests.holding import descriptors

SHM = Path("/dev/shm")
SIZE = 64


@pytest.fixture
def regions() -> Iterator[Regions]:
    regions = Regions(RegionsConfig(most=3, size=1 << 20))
    yield regions
    regions.close()


@pytest.fixture
def file() -> Iterator[Path]:
    path = SHM / f"test-{uuid4().hex}"
    path.write_bytes(bytes(range(SIZE)))
    yield path
    path.unlink(missing_ok=True)


def times_open(file: Path) -> int:
    return sum(leads == str(file) for _, leads in descriptors())


def test_what_lies_there_is_read_and_written(regions: Regions, file: Path) -> None:
    regions.register("r", f"/{file.name}", 16, 32, "")
    assert regions.read("r", 0, 32, "") == bytes(range(16, 48))
    assert regions.read("r", 4, 2, "") == bytes([20, 21])
    assert regions.read("r", 32, 0, "") == b""
    regions.write("r", 30, b"\xff\xfe", "")
    assert file.read_bytes()[44:50] == bytes([44, 45, 255, 254, 48, 49])
    assert [(one.name, one.offset, one.size) for one in regions.status("", "")] == [("r", 16, 32)]


@pytest.mark.parametrize(
    ("offset", "size"),
    [(0, 33), (32, 1), (33, 0), (2**63, 1), (2**64 - 1, 2), (1, 2**64 - 1), (2**70, 2**70)],
)
def test_b29_bytes_outside_of_a_region_are_refused(
    regions: Regions, file: Path, offset: int, size: int
) -> None:
    regions.register("r", file.name, 16, 32, "")
    with pytest.raises(RequestError, match="not within the 32 bytes"):
        regions.read("r", offset, size, "")
    with pytest.raises(RequestError):
        regions.write("r", offset, bytes(min(size, 64) or 1), "")
    assert file.read_bytes() == bytes(range(SIZE))


@pytest.mark.parametrize(
    ("offset", "size"),
    [(0, 0), (0, SIZE + 1), (1, SIZE), (2**63 - 1, 1), (2**64 - 8, 16), (0, 2**64), (0, 1 << 21)],
)
def test_b29_a_region_that_its_file_does_not_hold_is_refused(
    regions: Regions, file: Path, offset: int, size: int
) -> None:
    before = descriptors()
    with pytest.raises(RequestError):
        regions.register("r", file.name, offset, size, "")
    assert not descriptors() - before
    assert regions.status("", "") == ()


@pytest.mark.parametrize(
    "key",
    [
        "../etc/passwd",
        "/../etc/passwd",
        "//etc/passwd",
        "/a/b",
        "",
        "/",
        ".",
        "/..",
        "a\0b",
        "a\nb",
        "headrace-1",
        "/triton_python_backend_shm_region_1",
        "sem.x",
        "x" * 300,
        "missing",
    ],
)
def test_b29_keys_that_are_no_plain_name_or_reserved_are_refused(
    regions: Regions, key: str
) -> None:
    with pytest.raises(RequestError) as error:
        regions.register("r", key, 0, 1, "")
    assert str(error.value).isprintable()
    assert "/dev/shm" not in str(error.value)


def test_only_names_with_the_prefix_may_be_registered(file: Path) -> None:
    regions = Regions(RegionsConfig(prefix="client-"))
    with pytest.raises(RequestError, match="none that may be registered"):
        regions.register("r", file.name, 0, 1, "")
    there = SHM / f"client-{file.name}"
    file.rename(there)
    try:
        regions.register("r", there.name, 0, 1, "")
    finally:
        there.unlink()
        regions.close()


def test_a_link_a_folder_and_a_pipe_are_not_opened(regions: Regions, tmp_path: Path) -> None:
    target = tmp_path / "secret"
    target.write_bytes(bytes(8))
    names = [f"test-{uuid4().hex}" for _ in range(3)]
    (SHM / names[0]).symlink_to(target)
    (SHM / names[1]).mkdir()
    os.mkfifo(SHM / names[2])
    before = descriptors()
    try:
        for name in names:
            with pytest.raises(RequestError, match="cannot be opened"):
                regions.register("r", name, 0, 8, "")
    finally:
        (SHM / names[0]).unlink()
        (SHM / names[1]).rmdir()
        (SHM / names[2]).unlink()
    assert not descriptors() - before


def test_a_file_that_becomes_shorter_is_an_error_and_no_signal(
    regions: Regions, file: Path
) -> None:
    regions.register("r", file.name, 0, SIZE, "")
    os.truncate(file, 8)
    with pytest.raises(RequestError, match="shorter"):
        regions.read("r", 0, SIZE, "")
    with pytest.raises(RequestError, match="shorter"):
        regions.write("r", 0, bytes(SIZE), "")
    assert file.stat().st_size == 8
    assert regions.read("r", 0, 8, "") == bytes(range(8))


def test_a_region_does_not_exist_for_others(regions: Regions, file: Path) -> None:
    regions.register("r", file.name, 0, 8, "one")
    for name in ("r", "nothing"):
        with pytest.raises(RequestError, match=f"there is no region '{name}'"):
            regions.read(name, 0, 1, "two")
        with pytest.raises(RequestError, match=f"there is no region '{name}'"):
            regions.status(name, "two")
    regions.unregister("r", "two")
    regions.unregister("", "two")
    assert regions.status("", "two") == ()
    assert regions.read("r", 0, 1, "one") == b"\0"


def test_a_region_in_use_is_closed_when_its_last_use_ends(regions: Regions, file: Path) -> None:
    before = descriptors()
    regions.register("r", file.name, 0, 8, "")
    with regions.using("r", 0, 8, "") as (first, _), regions.using("r", 0, 8, "") as (second, _):
        regions.unregister("r", "")
        assert first == second
        assert os.pread(first, 1, 3) == b"\3"  # still ours, and of the same file
        with pytest.raises(RequestError, match="there is no region"):
            regions.read("r", 0, 1, "")
        regions.register("r", file.name, 8, 8, "")  # the name is free at once
        assert regions.read("r", 0, 1, "") == b"\10"
        regions.unregister("r", "")
    assert not descriptors() - before


def test_a_name_is_registered_once_and_so_many_regions_at_most(
    regions: Regions, file: Path
) -> None:
    regions.register("a", file.name, 0, 1, "")
    with pytest.raises(RequestError, match="registered already"):
        regions.register("a", file.name, 0, 1, "other")
    regions.register("b", file.name, 0, 1, "")
    regions.register("c", file.name, 0, 1, "")
    with pytest.raises(Fault) as fault:
        regions.register("d", file.name, 0, 1, "")
    assert fault.value.code is Code.OVERLOADED
    assert times_open(file) == 3
    regions.unregister("", "")
    assert regions.status("", "") == ()
    assert times_open(file) == 0


@pytest.mark.parametrize("name", ["", "../r", "a b", "a\nb", ".r", "x" * 200])
def test_a_region_has_a_plain_name(regions: Regions, file: Path, name: str) -> None:
    with pytest.raises(RequestError, match="no region's name"):
        regions.register(name, file.name, 0, 1, "")


def test_a_request_reads_so_much_at_most(regions: Regions, file: Path) -> None:
    regions.register("r", file.name, 0, SIZE, "")
    lent = regions.lend("", 100)
    assert len(lent.read(Place("r", 0, 60))) == 60
    with pytest.raises(RequestError, match="more than 100 bytes"):
        lent.read(Place("r", 0, 60))
    with pytest.raises(RequestError, match="the output has 9 bytes, and 8"):
        lent.write(Place("r", 0, 8), bytes(9))
