"""Files that are no plan, each refused with a reason."""

import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.compiler.plan_file import (
    FORMAT_VERSION,
    PlanError,
    read,
    to_bytes,
)
from tests.compiler.plan_files import (
    HEAD,
    MODEL,
    Keys,
    digest_of,
    make_plan,
    members_of,
    rebuilt,
    refusal,
    sealed,
)


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
