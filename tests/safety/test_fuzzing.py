"""Whatever bytes come, an answer goes out: those of the corpus, and what chance makes of them."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.runtime.protocols.messages import ModelInferRequest
from tests.safety.corpus import FOLDER, entries, mutated, sound_grpc, sound_http
from tests.safety.hosted import Hosted
from tests.safety.targets import MODELS, TARGETS, call_grpc, seeds

LIBERAL = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_and_what_is_made_of_it_are_answered(target: str) -> None:
    found = seeds(target, entries("http"), entries("grpc"))
    random = Random(target)
    for entry in found:
        TARGETS[target](entry)
        for _ in range(10):
            TARGETS[target](mutated(random, entry, found))


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_is_answered(target: str) -> None:
    for entry in seeds(target, entries("http"), entries("grpc")):
        TARGETS[target](entry)


def test_the_corpus_holds_all_that_is_sound() -> None:
    for kind, sound in (("http", sound_http()), ("grpc", sound_grpc())):
        for name, content in sound:
            assert (FOLDER / kind / name).read_bytes() == content, "run tests/safety/corpus.py"


@pytest.mark.slow
def test_the_corpus_over_real_connections(hosted: Hosted) -> None:
    for entry in entries("http"):
        with hosted.connect() as connection:
            connection.sendall(entry)
            assert connection.recv(9) == b"HTTP/1.1 "
    hosted.serves()


def odd_message(descriptor: Descriptor, depth: int) -> st.SearchStrategy[dict[str, object]]:
    """Messages that are valid by the descriptor, each field from what its type may hold."""
    fields = {field.name: odd_field(field, depth) for field in descriptor.fields}
    return st.fixed_dictionaries({}, optional=fields)


def odd_field(field: FieldDescriptor, depth: int) -> st.SearchStrategy[object]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        value = field.message_type.fields_by_name["value"]
        return st.dictionaries(st.text(max_size=8) | NAMES, odd_value(value, depth), max_size=3)
    if field.is_repeated:
        return st.lists(odd_value(field, depth), max_size=3)
    return odd_value(field, depth)


WORDS = """x0 x1 y0 x0_shape FP32 BYTES INT64 1 timeout priority sequence_id sequence_start
classification shared_memory_region binary_data"""
NAMES = st.sampled_from((*MODELS, *WORDS.split()))


def odd_value(field: FieldDescriptor, depth: int) -> st.SearchStrategy[object]:
    if field.message_type is not None:
        return odd_message(field.message_type, depth - 1) if depth else st.just({})
    whole = st.sampled_from((0, 1, 2, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**64 - 1))
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return st.binary(max_size=24)
        case FieldDescriptor.CPPTYPE_STRING:
            return NAMES | st.text(max_size=8)
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return st.floats(width=32)
        case FieldDescriptor.CPPTYPE_INT32:
            return whole.filter(lambda value: -(2**31) <= value < 2**31)
        case FieldDescriptor.CPPTYPE_UINT32:
            return whole.filter(lambda value: 0 <= value < 2**32)
        case FieldDescriptor.CPPTYPE_INT64:
            return whole.filter(lambda value: value < 2**63)
        case _:
            return whole.filter(lambda value: value >= 0)


@pytest.mark.slow
@LIBERAL
@given(odd_message(ModelInferRequest.DESCRIPTOR, 3), st.sampled_from(MODELS))
def test_a_valid_message_of_odd_fields_is_answered(message: dict[str, object], model: str) -> None:
    made = ModelInferRequest(**message)
    call_grpc(made.SerializeToString())
    made.model_name, made.model_version = model, ""
    call_grpc(made.SerializeToString())


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed")
def test_fuzzing_guided_by_coverage_finds_nothing(target: str, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    script = Path(__file__).with_name("fuzz.py")
    words = (target, folder, "-max_total_time=8", "-print_final_stats=1", "-rss_limit_mb=4096")
    done = subprocess.run(
        [sys.executable, script, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
