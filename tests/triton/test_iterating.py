"""Models that schedule requests anew: rows of several requests meet in each execution."""

from collections.abc import Iterator
from concurrent.futures import Future

import numpy as np
import pytest

from headrace.runtime.request import Request, Response
from tests.runtime.drivers import LONG
from tests.triton.test_run import PLACES, Follower
from tests.triton.writing import put

pytestmark = pytest.mark.slow  # each model is a process

COUNTS = """
import numpy as np
import triton_python_backend_utils as pb

AGAIN = pb.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE


class TritonPythonModel:
    def initialize(self, args):
        self.seen = {}

    def execute(self, requests):
        return [self.answer(one, len(requests)) for one in requests]

    def answer(self, request, together):
        wanted, least = self.read(request, "X")
        (starts,) = self.read(request, "START")
        runs, most, started = self.seen.get(request.correlation_id(), (0, 0, 0))
        runs, most, started = runs + 1, max(most, together), started + starts
        if wanted < 0:
            raise ValueError("no less than none")
        if runs < 100000 and (runs < wanted or most < least):
            self.seen[request.correlation_id()] = runs, most, started
            request.set_release_flags(AGAIN)
            return None
        self.seen.pop(request.correlation_id(), None)
        found = np.array([[runs, most, started]], np.float32)
        return pb.InferenceResponse([pb.Tensor("Y", found)])

    def read(self, request, name):
        return pb.get_input_tensor_by_name(request, name).as_numpy().ravel().tolist()
"""
OFTEN = COUNTS.replace(
    "return [self.answer(one, len(requests)) for one in requests]",
    """
        for one in requests:
            found, sender = self.answer(one, len(requests)), one.get_response_sender()
            if found is not None:
                sender.send(found, flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)""",
)
CONFIG = """
backend: "python"
max_batch_size: 4
input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ 3 ] }
sequence_batching {
    iterative_sequence: true
    control_input {
        name: "START"
        control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] }
    }
    STRATEGY
}
"""


@pytest.fixture(scope="module", params=PLACES, ids=["processes", "in process"])
def follower(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Follower]:
    folder = tmp_path_factory.mktemp("iterating")
    put(folder / "counts/1/model.py", COUNTS)
    put(folder / "counts/config.pbtxt", CONFIG.replace("STRATEGY", "oldest { }"))
    put(folder / "two/1/model.py", COUNTS)
    two = "oldest { max_candidate_sequences: 2 }"
    put(folder / "two/config.pbtxt", CONFIG.replace("STRATEGY", two))
    put(folder / "often/1/model.py", OFTEN)
    decoupled = CONFIG.replace("STRATEGY", "oldest { }")
    put(
        folder / "often/config.pbtxt",
        f"{decoupled}model_transaction_policy {{ decoupled: true }}",
    )
    made = Follower(folder, request.param)
    made.renew()
    assert not made.failures
    yield made
    made.repository.close()


def ask(follower: Follower, model: str, wanted: float, least: float = 1) -> "Future[Response]":
    given = {"X": np.array([[wanted, least]], np.float32)}
    return follower.repository.nested.submit(Request(model, given), "")


def said(future: "Future[Response]") -> list[float]:
    """Return how often it ran, with how many at the most, and how often it was told to start."""
    response = future.result(LONG)
    return np.asarray(response.outputs["Y"]).ravel().tolist()


@pytest.mark.parametrize("model", ["counts", "often"])
def test_a_request_runs_until_it_is_answered(follower: Follower, model: str) -> None:
    assert said(ask(follower, model, 1)) == [1, 1, 1]
    assert said(ask(follower, model, 5)) == [5, 1, 1]


@pytest.mark.parametrize("model", ["counts", "often"])
def test_new_requests_join_those_that_run_again(follower: Follower, model: str) -> None:
    """None of them ends before three have met in one execution."""
    futures = [ask(follower, model, 3, 3) for _ in range(3)]
    for runs, most, started in map(said, futures):
        assert runs >= 3
        assert most == 3
        assert started == 1


def test_no_more_are_under_way_than_there_are_candidates(follower: Follower) -> None:
    futures = [ask(follower, "two", 20) for _ in range(8)]
    for runs, most, started in map(said, futures):
        assert (runs, started) == (20, 1)
        assert most <= 2


def test_one_that_fails_is_alone_with_it(follower: Follower) -> None:
    futures = [ask(follower, "counts", 30) for _ in range(3)]
    bad = ask(follower, "counts", -1)
    with pytest.raises(Exception, match="no less than none"):
        said(bad)
    for one in futures:
        runs, _, started = said(one)
        assert runs >= 30
        assert started >= 1


def test_one_whose_caller_goes_runs_no_more(follower: Follower) -> None:
    going = ask(follower, "counts", 1, 5)  # which never meets so many
    assert going.cancel()
    assert said(ask(follower, "counts", 4))[0] == 4
