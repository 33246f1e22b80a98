"""What was built is kept: whole or not at all, and built again where it is damaged."""

import multiprocessing
from multiprocessing.queues import Queue
from pathlib import Path

import pytest

from headrace.runtime.kernels.kept import built, kept
from headrace.runtime.load_error import LoadError


def never() -> bytes:
    raise AssertionError("it is there")


def test_what_is_there_is_not_built_again(tmp_path: Path) -> None:
    path = kept(tmp_path / "new", "key", ".so", lambda: b"code")
    assert path.read_bytes() == b"code"
    assert kept(tmp_path / "new", "key", ".so", never) == path
    assert kept(tmp_path / "new", "other", ".so", lambda: b"more").read_bytes() == b"more"


def test_what_is_there_is_taken_without_a_lock(tmp_path: Path) -> None:
    path = kept(tmp_path, "key", ".so", lambda: b"code")
    (lock,) = tmp_path.glob("*.lock")
    lock.unlink()
    lock.mkdir()  # as nobody could lock in a folder that is only read
    assert kept(tmp_path, "key", ".so", never) == path
    path.write_bytes(b"damaged")
    with pytest.raises(LoadError, match="keeps no kernels"):
        kept(tmp_path, "key", ".so", never)


@pytest.mark.parametrize("damage", [b"", b"cod", b"codes"])
def test_a_damaged_file_is_built_again(damage: bytes, tmp_path: Path) -> None:
    path = kept(tmp_path, "key", ".so", lambda: b"code")
    path.write_bytes(damage)
    assert kept(tmp_path, "key", ".so", lambda: b"anew").read_bytes() == b"anew"
    assert len(list(tmp_path.glob("*.so"))) == 1


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        kept(tmp_path, "key", ".so", never)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(LoadError, match="file` keeps no kernels"):
        kept(file, "key", ".so", never)


def test_without_a_folder_a_file_is_there_for_a_while() -> None:
    with built(None, "key", ".so", lambda: b"code") as path:
        assert path.read_bytes() == b"code"
    assert not path.exists()


def _build(folder: Path, count: "Queue[int]") -> None:
    def once() -> bytes:
        count.put(1)
        return b"code"

    assert kept(folder, "key", ".so", once).read_bytes() == b"code"


@pytest.mark.slow
def test_processes_that_need_the_same_build_it_once(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    count = spawn.Queue()
    processes = [spawn.Process(target=_build, args=(tmp_path, count)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert count.get() == 1
    assert count.empty()
