"""Plans on disk: what a folder holds, and what happens when it changes."""

import os
import queue
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.compiler import compile_source
from headrace.compiler.plan import Plan
from headrace.compiler.plan_file import TRUNCATED, PlanError, read, to_bytes, write
from headrace.dsl.read import read_source
from headrace.runtime.engine import EngineConfig
from headrace.runtime.repository.folder import BadFolder, candidates, scan
from headrace.runtime.repository.keeper import Apps, Keeper
from headrace.runtime.repository.policy import All, Policy
from headrace.runtime.repository.repository import Repository
from headrace.runtime.repository.state import LoadFailed
from headrace.runtime.repository.watch import Watch
from headrace.runtime.service import Service
from tests.runtime.repository.plans import adding, ask, serving


def put(path: Path, plan: Plan) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write(plan, path)


def test_a_folder_holds_plans_sources_and_versions(tmp_path: Path) -> None:
    for name in ("a.plan", "b.pipe", "c/1/model.plan", "c/12/model.pipe"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert scan(tmp_path) == {
        "a": {1: tmp_path / "a.plan"},
        "b": {1: tmp_path / "b.pipe"},
        "c": {1: tmp_path / "c/1/model.plan", 12: tmp_path / "c/12/model.pipe"},
    }


def test_what_is_no_plan_is_passed_over(tmp_path: Path) -> None:
    for name in (".a.plan.7.tmp", ".b.plan", "c.txt", "d/model.plan", "e/v1/model.plan", "f/1/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "g.plan").mkdir()
    assert scan(tmp_path) == {}


def test_a_plan_comes_before_its_source(tmp_path: Path) -> None:
    (tmp_path / "a.pipe").touch()
    (tmp_path / "a.plan").touch()
    assert scan(tmp_path) == {"a": {1: tmp_path / "a.plan"}}


def test_two_files_of_one_version_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "a/1/model.plan", adding(1.0))
    put(tmp_path / "a.plan", adding(1.0))
    with pytest.raises(BadFolder, match="are both version 1"):
        scan(tmp_path)


def test_a_name_that_nobody_could_ask_for_is_refused(tmp_path: Path) -> None:
    (tmp_path / "my plan.plan").touch()
    with pytest.raises(BadFolder, match="'my plan' cannot be a name"):
        scan(tmp_path)


def test_the_stamp_of_a_plan_is_its_files_and_a_source_has_none(tmp_path: Path) -> None:
    put(tmp_path / "a.plan", adding(1.0))
    files = {1: tmp_path / "a.plan", 2: tmp_path / "b.pipe"}
    first, again = candidates(files, read), candidates(files, read)
    assert first[1].stamp == again[1].stamp is not None
    assert first[2].stamp is None
    put(tmp_path / "a.plan", adding(2.0))
    assert candidates(files, read)[1].stamp != first[1].stamp


def apps_of(folder: Path) -> Apps:
    return {app: candidates(files, read_any) for app, files in scan(folder).items()}


Told = tuple[str, LoadFailed | None]


class Watched:
    """A repository that follows a folder, and what was told of it."""

    def __init__(self, folder: Path, policy: Policy | None = None) -> None:
        policies = {} if policy is None else {"": policy}
        self.repository = Repository(EngineConfig(workers=1), policies=policies)
        self.told: queue.SimpleQueue[Told] = queue.SimpleQueue()
        self._keeper = Keeper(self.repository, lambda: apps_of(folder))
        self._watch = Watch([folder], lambda _: self._keeper.renew(self._tell))
        self._keeper.renew(self._tell)
        self.service: Service = serving(self.repository)

    def _tell(self, app: str, failure: LoadFailed | None) -> None:
        self.told.put((app, failure))

    def hears(self, app: str) -> LoadFailed | None:
        """Wait for the next that is told; it is of this app."""
        name, failure = self.told.get(timeout=20)
        assert name == app
        return failure

    def close(self) -> None:
        self._watch.close()
        self.repository.close()


def read_any(path: Path) -> Plan:
    return read(path) if path.suffix == ".plan" else compile_source(read_source(path))


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def begin(policy: Policy | None = None) -> Watched:
        made.append(Watched(tmp_path, policy))
        return made[-1]

    yield begin
    for one in made:
        one.close()


def test_a_plan_that_changes_on_disk_is_served_anew(
    tmp_path: Path, watch: Callable[..., Watched]
) -> None:
    put(tmp_path / "a.plan", adding(1.0))
    watched = watch()
    assert watched.hears("a") is None
    assert ask(watched.service) == (1.0, "1")
    put(tmp_path / "a.plan", adding(2.0))
    assert watched.hears("a") is None
    assert ask(watched.service) == (2.0, "1")


@pytest.mark.slow
def test_versions_come_and_go_with_their_folders(
    tmp_path: Path, watch: Callable[..., Watched]
) -> None:
    put(tmp_path / "a/1/model.plan", adding(1.0))
    watched = watch(All())
    assert watched.hears("a") is None
    put(tmp_path / "a/2/model.plan", adding(2.0))
    assert watched.hears("a") is None
    assert watched.service.versions("p") == ("1", "2")
    shutil.rmtree(tmp_path / "a/1")
    assert watched.hears("a") is None
    assert watched.service.versions("p") == ("2",)
    shutil.rmtree(tmp_path / "a")
    assert watched.hears("a") is None
    assert watched.service.versions("p") == ()


@pytest.mark.slow
def test_a_half_written_plan_is_not_served_and_the_whole_one_is(
    tmp_path: Path, watch: Callable[..., Watched]
) -> None:
    put(tmp_path / "a.plan", adding(1.0))
    watched = watch()
    assert watched.hears("a") is None
    content = to_bytes(adding(2.0))
    with (tmp_path / "a.plan").open("wb") as file:
        file.write(content[: len(content) // 2])
        file.flush()
        os.fsync(file.fileno())
        failure = watched.hears("a")
        assert failure is not None
        assert isinstance(failure.cause, PlanError)
        assert failure.cause.code == TRUNCATED
        assert failure.stays
        assert ask(watched.service) == (1.0, "1")
        file.write(content[len(content) // 2 :])
    while watched.hears("a") is not None:  # told between, of a file that was still not whole
        pass
    assert ask(watched.service) == (2.0, "1")


CHILD = """\
pipeline child(x: f32[N]) -> (y: f32[N]) { return y = x + AMOUNT }
pipeline top(x: f32[N]) -> (y: f32[N]) { return y = child(x) }
"""


def test_a_source_that_changes_is_compiled_and_mistakes_change_nothing(
    tmp_path: Path, watch: Callable[..., Watched]
) -> None:
    source = tmp_path / "nested.pipe"
    source.write_text(CHILD.replace("AMOUNT", "1.0"))
    watched = watch()
    assert watched.hears("nested") is None
    assert ask(watched.service, "top") == (1.0, "1")
    source.write_text(CHILD.replace("AMOUNT", "oh no"))
    failure = watched.hears("nested")
    assert failure is not None
    assert ask(watched.service, "top") == (1.0, "1")
    source.write_text(CHILD.replace("AMOUNT", "2.0"))
    assert watched.hears("nested") is None
    assert ask(watched.service, "top") == (2.0, "1")


def test_a_function_beside_a_source_is_a_part_of_it(
    tmp_path: Path, watch: Callable[..., Watched]
) -> None:
    (tmp_path / "stages.py").write_text("def f(x):\n    return x + 1\n")
    (tmp_path / "a.pipe").write_text(
        'fn f(x: f32[N]) -> (y: f32[N]) = python "stages.py:f"\n'
        "pipeline p(x: f32[N]) -> (y: f32[N]) { return y = f(x) }\n"
    )
    watched = watch()
    assert watched.hears("a") is None
    (tmp_path / "stages.py").write_text("def f(x):\n    return x + 2\n")
    assert watched.hears("a") is None
    assert ask(watched.service) == (2.0, "1")
