"""The corpus loaded by a tritonserver and by headrace: the same models are refused, configurations
are completed alike, and what both load tells, answers and counts the same."""

from collections.abc import Callable, Iterable, Iterator

import pytest
from google.protobuf import json_format

from headrace.runtime.protocols.messages import ModelConfig
from headrace.triton.check import subjects
from headrace.triton.ensemble import steps
from headrace.triton.repository import read
from headrace.triton.serving import Options
from headrace.triton.subject import Others, Subject
from headrace.triton.translate.schedule import Serving
from tests.triton.comparing import told
from tests.triton.corpus import CASES, Case
from tests.triton.referee import PYTHON, Referee, refereeing
from tests.triton.test_run import following

pytestmark = [
    pytest.mark.exhaustive,  # seconds for each model that is loaded
    pytest.mark.skipif(not PYTHON.exists(), reason="there is no /opt/peers/pytriton"),
]
JUDGED = [case for case in CASES if case.judged]
LOADED = [case for case in JUDGED if not case.refused and case.answers]


@pytest.fixture(scope="module")
def referees(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Referee]]:
    with refereeing(tmp_path_factory.mktemp("referee")) as fit:
        yield fit


@pytest.fixture
def referee(referees: Callable[[], Referee]) -> Referee:
    return referees()


@pytest.fixture
def repository(referee: Referee, request: pytest.FixtureRequest) -> Iterator[Case]:
    case: Case = request.param
    case.write(referee.folder)
    yield case
    referee.clear(case.models)


def title(case: Case) -> str:
    return case.title


@pytest.mark.parametrize("repository", JUDGED, ids=title, indirect=True)
def test_a_tritonserver_decides_as_the_corpus_says(repository: Case, referee: Referee) -> None:
    others = subjects(read(referee.folder))
    said = {name: referee.load(name) for name in repository.models}
    refused = {name: why for name, why in said.items() if why}
    assert refused.keys() == repository.refused.keys()
    assert all(repository.refused[name] in why for name, why in refused.items())
    for name in said.keys() - refused.keys():
        assert completed(referee, name) == expected(others, name)


def completed(referee: Referee, name: str) -> object:
    _, found = referee.ask(f"models/{name}/config")
    return json_format.ParseDict(found, ModelConfig(), ignore_unknown_fields=True)


def expected(others: Others, name: str) -> object:
    subject = others.named(name)
    assert subject is not None
    return subject.config


@pytest.mark.parametrize("repository", LOADED, ids=title, indirect=True)
def test_both_servers_tell_answer_and_count_the_same(repository: Case, referee: Referee) -> None:
    options = Options(serving=Serving(cache=1 << 20))
    with following(referee.folder, options) as (follower, http, _):
        assert follower.failures.keys() == repository.unserved.keys()
        # Members first: there, what an ensemble runs counts for its members too.
        known = sorted(subjects(read(referee.folder)), key=depth)
        assert not any(referee.load(one.name) for one in known)
        for subject in known:
            if subject.name not in follower.failures:
                address = http if "//" in http else f"http://{http}"
                ours = alike(repository, told(address, subject.config, repository.asks))
                theirs = told(f"http://{referee.address}", subject.config, repository.asks)
                assert ours == alike(repository, theirs)


def alike(case: Case, found: Iterable[tuple[str, object]]) -> list[tuple[str, object]]:
    """Leave out what the case says is told differently."""
    return [(key, one) for key, one in found if not key.endswith(tuple(case.differs))]


def depth(subject: Subject) -> int:
    """Return how many levels of ensembles a model is made of."""
    return max((1 + depth(step.model) for step in steps(subject)), default=0)
