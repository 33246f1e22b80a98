"""Plan files: exact round trips, one form, and every other file refused with a reason."""

import json
import math
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias, cast

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.compiler.plan import (
    Batching,
    Block,
    BranchStep,
    CallStep,
    Check,
    CheckStep,
    Declined,
    EachStep,
    Isolation,
    MemoryPlan,
    ModelSegment,
    OpSegment,
    Parameter,
    PipelinePlan,
    Place,
    Plan,
    Priorities,
    PythonSegment,
    Queueing,
    Sequencing,
    Service,
    SwitchStep,
    TransferStep,
)
from headrace.compiler.plan_file import (
    FORMAT_VERSION,
    PlanError,
    plan_hash,
    read,
    to_bytes,
    write,
)
from headrace.dsl.types import (
    ANY_DIM,
    DimArith,
    DimVar,
    DType,
    Field,
    ListType,
    OptionalType,
    Signature,
    TensorType,
)
from headrace.stdlib.op import Array, Literal

Keys: TypeAlias = "tuple[str | int, ...]"

HEAD = b"headrace plan %d\n" % FORMAT_VERSION

H = DimVar("H", 3)
IMAGE = TensorType(DType.F32, (3, DimArith("*", DimArith("/", H, 2), 2), ANY_DIM))
BOXES = ListType(TensorType(DType.F32, (4, 2)), 1000)
PLACE = Place("a.pipe", 7, 5, 'x = f("é")')
MODEL = bytes(range(256)) * 8
SOURCE = b"def f(x):\n    return x\n"


def digest_of(content: bytes) -> str:
    return sha256(content).hexdigest()


def make_plan(literal: Literal = None) -> Plan:
    """A small plan with every kind of step and segment in it."""
    onnx = ModelSegment(
        name="detect",
        members=("image.normalize", "detect"),
        model=digest_of(MODEL),
        signature=Signature((Field("x", IMAGE),), (Field("y", IMAGE),)),
        input_names=("x",),
        output_names=("y",),
        input_axes=(0,),
        output_axes=(None,),
        device="sim",
        batching=Batching(8, 0.001, (4, 8)),
        group=1,
        instances=2,
        queueing=Queueing(16, 0.5, "reject", True, ((2, Queueing(4, 0.1, "delay")),)),
        service=Service(Priorities(3, 2), 1 << 20, (1, 8), (("dsp", 1),), (0, 1), 2),
        checks=(Check(DimArith("%", H, 32), "==", 0, "H % 32 == 0"),),
        place=PLACE,
    )
    python = PythonSegment(
        name="quads",
        source=digest_of(SOURCE),
        file="ocr.py",
        attribute="f",
        signature=Signature((Field("x", IMAGE),), (Field("b", BOXES),)),
        batched=False,
        batching=None,
        queueing=None,
        checks=(),
        place=PLACE,
        service=Service(isolation=Isolation(2 << 30, 5.0)),
    )
    op = OpSegment("core.cast", "core.cast", (OptionalType(BOXES),), PLACE)
    arm = Block((), ((5, 0),), (), (), (0,), 1, ())
    each = Block((0,), (), (), (CallStep(2, (0,), (1,), PLACE),), (1,), 2, ((0,),))
    steps = (
        TransferStep(0, 2, "sim", PLACE),
        CallStep(0, (2,), (3,), PLACE),
        CheckStep(Check(H, "==", 32, "H == 32"), ((H, 3, 1),), "detect", PLACE),
        TransferStep(3, 4, "cpu", PLACE),
        CallStep(1, (4,), (5,), PLACE),
        BranchStep(1, arm, arm, (6,), PLACE),
        SwitchStep(1, ((("en", 1, True), arm), ((2.5, None), arm)), arm, (7,), PLACE),
        EachStep((7,), each, False, (8,), (BOXES,), PLACE),
    )
    body = Block(
        params=(0,),
        captures=(),
        constants=((1, literal, TensorType(DType.BOOL)),),
        steps=steps,
        results=(6, 8),
        slots=9,
        last_uses=((0,), (2,), (), (3,), (4,), (), (1, 5), (7,)),
    )
    pipeline = PipelinePlan(
        name="p",
        parameters=(Parameter(Field("x", IMAGE), True, literal),),
        results=(Field("a", BOXES), Field("b", BOXES)),
        body=body,
        batch=32,
        deadline=2.0,
        queueing=Queueing(4, None, "delay"),
        place=PLACE,
        idle=60.0,
        priority=Priorities(2, 1),
        sequencing=Sequencing("oldest", 100, 8),
    )
    return Plan(
        producer="0.1.0",
        pipelines=(pipeline,),
        segments=(onnx, python, op),
        memory=(MemoryPlan("p", "cpu", 10, 9, 20, ("logits",)),),
        explanation=(("plan", "%0 x f32[3, H]\n"),),
        declined=(Declined("p", "fuse", "detect", "has two consumers", PLACE),),
        blobs=((digest_of(MODEL), MODEL), (digest_of(SOURCE), SOURCE)),
        resources=(("dsp", 2),),
    )


def rebuilt(members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A file with a truthful header around any members at all."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return sealed(buffer.getvalue())


def sealed(body: bytes) -> bytes:
    return HEAD + b"sha256 %s %d\n%s" % (digest_of(body).encode(), len(body), body)


def members_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def literal_of(plan: Plan) -> Any:  # Any: the tests say which literal it is
    return plan.pipelines[0].parameters[0].default


def refusal(content: bytes) -> PlanError:
    with pytest.raises(PlanError) as caught:
        read(content)
    return caught.value


# ---- round trips


def test_a_plan_comes_back_equal_with_every_kind_of_step() -> None:
    assert read(to_bytes(make_plan())) == make_plan()


def test_a_plan_read_from_a_path_is_the_one_that_was_written(tmp_path: Path) -> None:
    write(make_plan(), tmp_path / "a.plan")
    assert read(tmp_path / "a.plan") == make_plan()
    assert [p.name for p in tmp_path.iterdir()] == ["a.plan"]


def test_the_hash_of_a_file_is_the_hash_of_its_plan(tmp_path: Path) -> None:
    write(make_plan(), tmp_path / "a.plan")
    assert plan_hash(tmp_path / "a.plan") == plan_hash(make_plan())
    assert plan_hash(to_bytes(make_plan(1))) != plan_hash(make_plan())


literals = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.binary(max_size=8)
    | st.sampled_from(DType),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=8,
)


def same(left: object, right: object) -> bool:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return np.float64(left).tobytes() == np.float64(right).tobytes()
    return type(left) is type(right) and left == right


@given(literals)
def test_literals_come_back_exact_and_of_the_same_type(literal: Literal) -> None:
    assert same(literal_of(read(to_bytes(make_plan(literal)))), literal)


def test_an_integer_longer_than_decimal_digits_may_be_comes_back() -> None:
    number = 7**9000
    assert literal_of(read(to_bytes(make_plan(number)))) == number


@pytest.mark.parametrize(
    "array",
    [
        np.array(3, np.int64),
        np.float32(0.1),
        np.zeros((0, 4, 2), np.float32),
        np.arange(12, dtype=np.uint8).reshape(3, 4)[:, ::2],
        np.array([math.nan, math.inf, -0.0]),
        np.array([[True], [False]]),
        np.arange(4, dtype=">i4"),
        np.arange(3).astype(np.float16),
        np.arange(3).astype(ml_dtypes.bfloat16),
        np.random.default_rng(0).standard_normal((40, 50)),
    ],
    ids=repr,
)
def test_arrays_come_back_with_dtype_shape_and_bits(array: Array) -> None:
    back = literal_of(read(to_bytes(make_plan(array))))
    assert type(back) is type(array)
    assert back.dtype == array.dtype.newbyteorder("<")
    assert back.shape == array.shape
    assert back.tobytes() == array.astype(back.dtype).tobytes()


def test_arrays_of_strings_and_bytes_come_back_as_objects() -> None:
    array = np.array([["a", "é\ud800"], [b"\xff", ""]], np.object_)
    back = literal_of(read(to_bytes(make_plan(array))))
    assert back.dtype == np.object_
    assert back.tolist() == array.tolist()


def test_arrays_of_a_plan_cannot_be_written_to() -> None:
    back = literal_of(read(to_bytes(make_plan(np.zeros(3)))))
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 1


def test_what_a_plan_cannot_hold_is_our_bug_and_says_so() -> None:
    with pytest.raises(TypeError, match="cannot hold a set"):
        to_bytes(make_plan(cast("Literal", {1})))
    with pytest.raises(TypeError, match="cannot hold an array of <U1"):
        to_bytes(make_plan(np.array(["a"])))


def test_writing_a_plan_twice_gives_the_same_bytes() -> None:
    assert to_bytes(make_plan(("a", 1.5))) == to_bytes(make_plan(("a", 1.5)))


def test_equal_long_contents_are_stored_once() -> None:
    plan = make_plan((MODEL, MODEL, np.frombuffer(MODEL, np.uint8)))
    assert len(to_bytes(plan)) < 2 * len(MODEL) + 20_000
    assert [name for name in members_of(to_bytes(plan)) if name.startswith("blobs/")] == [
        f"blobs/{digest_of(MODEL)}"
    ]


# ---- refusals


@given(st.data())
def test_a_file_with_any_one_byte_changed_is_refused(data: st.DataObject) -> None:
    content = bytearray(FILE)
    # The header is a twentieth of the file and decides most of the outcomes.
    header = st.integers(0, 100)
    at = data.draw(header | st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    assert refusal(bytes(content)).code in ("HR410", "HR411", "HR412", "HR413")


FILE = to_bytes(make_plan())


@given(st.integers(1, len(FILE) - 1))
def test_a_file_cut_short_anywhere_is_said_to_be_truncated(length: int) -> None:
    assert refusal(FILE[:length]).code == "HR411"


def test_a_header_that_counts_too_few_bytes_is_seen() -> None:
    body = FILE[FILE.index(b"PK") :]
    head = HEAD + f"sha256 {digest_of(body)} {len(body) - 1}\n".encode()
    assert refusal(head + body).code == "HR412"


def test_bytes_after_the_end_are_seen() -> None:
    assert refusal(FILE + b"\n").code == "HR412"


@pytest.mark.parametrize(
    "content", [b"", b"PK\3\4", b"model detect = onnx", b"Headrace plan 1\n", b"headrace plan x"]
)
def test_another_kind_of_file_is_not_a_plan(content: bytes) -> None:
    assert refusal(content).code == "HR410"


def test_a_newer_format_names_both_versions() -> None:
    error = refusal(FILE.replace(HEAD, b"headrace plan %d\n" % (FORMAT_VERSION + 1)))
    assert error.code == "HR413"
    newer = f"has plan format {FORMAT_VERSION + 1}; this headrace reads format {FORMAT_VERSION}"
    assert newer in error.message


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be read: No such file") as caught:
        read(tmp_path / "no.plan")
    assert caught.value.code == "HR415"


def test_a_body_of_noise_with_a_true_digest_is_malformed() -> None:
    assert refusal(sealed(b"")).code == "HR414"
    assert refusal(sealed(b"PK\5\6" + b"\xff" * 18)).code == "HR414"


@given(st.data())
def test_an_archive_changed_by_someone_who_knows_the_digest_never_escapes(
    data: st.DataObject,
) -> None:
    body = bytearray(FILE[FILE.index(b"PK") :])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        read(sealed(bytes(body)))
    except PlanError as error:
        assert error.code == "HR414"  # noqa: PT017 - either outcome is right, no other is


def test_a_compressed_member_is_refused_before_it_inflates() -> None:
    bomb = rebuilt([("plan.json", b"0" * 10_000_000)], zipfile.ZIP_DEFLATED)
    assert len(bomb) < 20_000
    assert "is compressed" in refusal(bomb).message


def test_members_that_overlap_are_refused() -> None:
    content = rebuilt([("outer", b"x" * 100), ("inner", b"y" * 5000)])
    body = bytearray(content[content.index(b"PK") :])
    size = body.index(b"PK\1\2") - len("outer") - 30  # the first now holds the second as well
    crc = zlib.crc32(body[35 : 35 + size])
    for at in (14, body.index(b"PK\1\2") + 16):
        body[at : at + 12] = struct.pack("<III", crc, size, size)
    assert "claim more bytes than there are" in refusal(sealed(bytes(body))).message


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_occurs_twice_is_refused() -> None:
    content = rebuilt([("plan.json", b"{}"), ("plan.json", b"[]")])
    assert "a name occurs twice" in refusal(content).message


def test_blobs_must_be_there_and_have_their_digests() -> None:
    members = members_of(FILE)
    name = f"blobs/{digest_of(MODEL)}"
    assert "missing blob" in refusal(rebuilt([("plan.json", members["plan.json"])])).message
    assert "another digest" in refusal(rebuilt([*members.items(), ("blobs/x", b"")])).message
    assert "another digest" in refusal(rebuilt([*{**members, name: b"other"}.items()])).message


@pytest.mark.parametrize(
    "text",
    [b"", b"nul", b"{", b"[" * 100_000, b'{"a": NaN}', b"1" * 5000, b"\xff\xfe", b'"', b"[]", b"1"],
    ids=lambda text: text[:8].decode("latin1"),
)
def test_json_that_is_no_plan_is_malformed(text: bytes) -> None:
    assert refusal(rebuilt([("plan.json", text)])).code == "HR414"


junk = st.sampled_from([None, True, -1, 1.5, "x", [], {}, [[]], {"float": "zz"}, {"int": "0x"}])


def paths(tree: Any, path: Keys = ()) -> list[Keys]:  # Any: JSON
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    found: list[Keys] = [path] if path else []
    for key, value in items:
        inner = (*path, key)
        found += paths(value, inner) if isinstance(value, dict | list) else [inner]
    return found


TREE = json.loads(members_of(to_bytes(make_plan((1, b"x" * 9, np.ones(2)))))["plan.json"])
PATHS = paths(TREE)


@given(st.sampled_from(PATHS), junk)
def test_a_wrong_json_type_anywhere_is_malformed_or_harmless(path: Keys, value: Any) -> None:
    def edit(tree: Any) -> None:  # Any: JSON
        *front, last = path
        for key in front:
            tree = tree[key]
        tree[last] = value

    try:
        read(with_tree(TREE, edit))
    except PlanError as error:
        assert error.code == "HR414"  # noqa: PT017 - some places take any JSON


def with_tree(tree: Any, edit: Callable[[Any], None]) -> bytes:  # Any: JSON
    """A file of edited JSON in which every digest is true."""
    tree = json.loads(json.dumps(tree))
    edit(tree)
    members = {**members_of(FILE), "plan.json": json.dumps(tree).encode()}
    return rebuilt([*members.items()])


def test_a_refusal_names_the_path_of_what_is_wrong() -> None:
    def edit(tree: Any) -> None:  # Any: JSON
        tree["pipelines"][0]["body"]["slots"] = "9"

    expected = "Plan.pipelines: PipelinePlan.body: Block.slots: wants an integer"
    assert expected in refusal(with_tree(TREE, edit)).message


def test_an_array_whose_shape_does_not_fit_its_bytes_is_malformed() -> None:
    def edit(tree: Any) -> None:  # Any: JSON
        tree["pipelines"][0]["parameters"][0]["default"] = {
            "array": {"dtype": "float32", "shape": [1 << 40, 1 << 40], "data": "AAAAAA=="}
        }

    assert "do not fill the shape" in refusal(with_tree(TREE, edit)).message


# ---- what every plan keeps to


def with_pipeline(**changes: object) -> Plan:
    plan = make_plan()
    return replace(plan, pipelines=(replace(plan.pipelines[0], **changes),))


def with_body(**changes: object) -> Plan:
    return with_pipeline(body=replace(make_plan().pipelines[0].body, **changes))


def with_segment(number: int = 0, **changes: object) -> Plan:
    """`segments[0]` is an ONNX model of three priorities, `segments[1]` a Python function."""
    plan = make_plan()
    segments = list(plan.segments)
    segments[number] = replace(segments[number], **changes)
    return replace(plan, segments=tuple(segments))


def bounded(*levels: int) -> Queueing:
    return Queueing(1, levels=tuple((level, Queueing(1)) for level in levels))


BODY = make_plan().pipelines[0].body
FIRST, CALL, *_ = BODY.steps


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (with_body(steps=(replace(FIRST, source=8), *BODY.steps[1:])), "uses a slot without value"),
        (with_body(steps=(replace(FIRST, target=9), *BODY.steps[1:])), "there is no slot 9"),
        (with_body(steps=(replace(FIRST, target=1), *BODY.steps[1:])), "given a value twice"),
        (with_body(steps=(FIRST, replace(CALL, segment=3), *BODY.steps[2:])), "no segment 3"),
        (with_body(steps=(FIRST, replace(CALL, segment=-1), *BODY.steps[2:])), "no segment -1"),
        (with_body(steps=(FIRST, replace(CALL, inputs=(2, 2)), *BODY.steps[2:])), "does not fit"),
        (with_body(results=(6,)), "results and slots differ"),
        (with_body(results=(6, 0)), "a result has no value"),
        (with_body(last_uses=((0,),)), "steps and last uses differ"),
        (with_body(last_uses=((1, 0), *BODY.last_uses[1:])), "uses a slot without value"),
        (with_body(captures=((0, 8),)), "the outermost block captures"),
        (replace(make_plan(), blobs=make_plan().blobs[1:]), "has no model"),
        (replace(make_plan(), blobs=make_plan().blobs[:1]), "has no source"),
        (replace(make_plan(), blobs=((digest_of(MODEL), b"x"),)), "is another"),
        (replace(make_plan(), pipelines=make_plan().pipelines * 2), "have one name"),
        (with_segment(queueing=Queueing(0)), "a queue of no places"),
        (with_segment(queueing=bounded(4)), "a priority that there is not"),
        (with_segment(queueing=bounded(2, 2)), "bounds a priority twice"),
        (with_segment(queueing=bounded(0)), "a priority below 1"),
        (with_segment(queueing=Queueing(1, levels=((1, bounded(1)),))), "levels within a level"),
        (with_segment(service=Service(Priorities(2, 3))), "a default priority"),
        (with_segment(service=Service(cache=0)), "a cache of no bytes"),
        (with_segment(service=Service(warmup=(4, 1))), "warmed up with no rows"),
        (with_segment(service=Service(cpus=(-1,))), "a core that there is not"),
        (with_segment(service=Service(threads=0)), "has no thread"),
        (with_segment(service=Service(resources=(("dsp", 3),))), "needs more 'dsp' than there is"),
        (with_segment(service=Service(resources=(("a", 1), ("a", 1)))), "names a resource twice"),
        (with_segment(service=Service(isolation=Isolation())), "runs no Python"),
        (with_segment(1, service=Service(isolation=Isolation(timeout=0.0))), "has no time"),
        (replace(make_plan(), resources=(("dsp", 0),)), "has none of a resource"),
        (with_pipeline(priority=Priorities(2, 0)), "a default priority"),
        (with_pipeline(queueing=bounded(3)), "a priority that there is not"),
        (with_pipeline(idle=None), "not per sequence puts sequences together"),
        (with_pipeline(sequencing=Sequencing("direct", most=4)), "in no way that there is"),
        (with_pipeline(sequencing=Sequencing("oldest", backlog=0)), "in no way that there is"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_plan_that_could_not_run_is_malformed(plan: Plan, reason: str) -> None:
    error = refusal(to_bytes(plan))
    assert error.code == "HR414"
    assert reason in error.message


def test_blocks_that_nest_a_thousand_deep_are_refused() -> None:
    arm = '{"BranchStep":%s}'
    deep = "1"
    for _ in range(1000):
        deep = arm % f'{{"then":{deep}}}'
    content = rebuilt([("plan.json", deep.encode())])
    assert refusal(content).code == "HR414"
