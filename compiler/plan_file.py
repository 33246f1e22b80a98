"""Plan files: written in one way, read with suspicion.

```
headrace plan 5                      the format's version
sha256 <64 hex digits> <bytes>       of all that follows
<a stored ZIP>                       plan.json, and blobs/<digest> for what is long
```

The same plan gives the same bytes (fixed time stamps, sorted keys), so the digest in the second
line names the plan. A file is data from elsewhere: nothing in it is unpickled or evaluated,
whatever does not fit is a PlanError, and a changed byte anywhere is seen.
"""

import json
import os
import re
import struct
import zipfile
import zlib
from hashlib import sha256
from io import BytesIO
from pathlib import Path

from ..dsl.diagnostic import Refusal
from ..dsl.recursion import allow_depth
from .literal_codec import Json, Malformed
from .plan import Plan
from .plan_codec import decode_plan, encode_plan
from .verify_plan import verify_plan

FORMAT_VERSION = 5
MAGIC = b"headrace plan "
HEADER = re.compile(rb"headrace plan ([1-9][0-9]{0,8})\n")
UNFINISHED = re.compile(rb"headrace plan [0-9]*")
DIGEST = re.compile(rb"sha256 ([0-9a-f]{64}) (0|[1-9][0-9]{0,17})\n")
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time that a ZIP can tell

NOT_A_PLAN, TRUNCATED, ALTERED, NEWER, MALFORMED, UNREADABLE = (
    f"HR{number}" for number in range(410, 416)
)


class PlanError(Refusal):
    """A plan file is refused; `code` says which way (HR410 to HR415), the message why."""


def to_bytes(plan: Plan) -> bytes:
    """Return the file of a plan."""
    body = _pack(plan)
    head = f"sha256 {sha256(body).hexdigest()} {len(body)}\n".encode()
    return MAGIC + f"{FORMAT_VERSION}\n".encode() + head + body


def write(plan: Plan, path: "str | os.PathLike[str]") -> None:
    """Write a plan; a file that is there is replaced at once or not at all."""
    target = Path(path)
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        draft.write_bytes(to_bytes(plan))
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def read(source: "str | os.PathLike[str] | bytes") -> Plan:
    """Return the plan in a file or in bytes; raises PlanError and nothing else."""
    name, content = _content(source)
    body, _ = _checked_body(name, content)
    try:
        return _decoded(body)
    except Malformed as error:
        raise PlanError(MALFORMED, f"{name} is malformed inside: {error}") from error
    except RecursionError as error:
        raise PlanError(MALFORMED, f"{name} is malformed inside: it nests too deeply") from error


def plan_hash(plan: "Plan | str | os.PathLike[str] | bytes") -> str:
    """Return the SHA-256 that is a plan's version; of a file, after checking it."""
    if isinstance(plan, Plan):
        return sha256(_pack(plan)).hexdigest()
    return _checked_body(*_content(plan))[1]


def _decoded(body: memoryview) -> Plan:
    """Return the plan in a ZIP; one that nests as deep as it may needs more than the usual stack.

    What runs a plan needs less of it than decoding does.
    """
    try:
        plan = decode_plan(*_unpack(body))
    except RecursionError:
        if not allow_depth():
            raise
        plan = decode_plan(*_unpack(body))
    verify_plan(plan)
    return plan


def _content(source: "str | os.PathLike[str] | bytes") -> tuple[str, bytes]:
    if isinstance(source, bytes):
        return "the plan", source
    try:
        return str(source), Path(source).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise PlanError(UNREADABLE, f"{source} cannot be read: {reason}") from error


def _checked_body(name: str, content: bytes) -> tuple[memoryview, str]:
    """Return the ZIP of a file whose header tells the truth, and its digest."""
    version = HEADER.match(content)
    if version is None:
        if content and (MAGIC.startswith(content) or UNFINISHED.fullmatch(content)):
            raise PlanError(TRUNCATED, f"{name} ends within the header of a plan")
        raise PlanError(NOT_A_PLAN, f"{name} is not a plan: its first line is not a plan's")
    if int(version[1]) != FORMAT_VERSION:
        raise PlanError(
            NEWER,
            f"{name} has plan format {int(version[1])}; this headrace reads format"
            f" {FORMAT_VERSION}",
            "compile the sources again with this headrace, or run a newer one",
        )
    digest = DIGEST.match(content, version.end())
    if digest is None and b"\n" not in content[version.end() : version.end() + 100]:
        raise PlanError(TRUNCATED, f"{name} ends within the header of a plan")
    if digest is None:
        raise PlanError(ALTERED, f"{name} was altered: its second line is not a digest")
    body, size = memoryview(content)[digest.end() :], int(digest[2])
    if len(body) < size:
        raise PlanError(TRUNCATED, f"{name} is truncated: {len(body)} of {size} bytes are there")
    if len(body) > size or sha256(body).hexdigest().encode() != digest[1]:
        raise PlanError(ALTERED, f"{name} was altered: its content does not have its digest")
    return body, digest[1].decode()


def _pack(plan: Plan) -> bytes:
    tree, blobs = encode_plan(plan)
    text = json.dumps(tree, separators=(",", ":"), sort_keys=True, allow_nan=False)
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry("plan.json"), text.encode("ascii"))
        for digest, content in sorted(blobs.items()):
            archive.writestr(_entry(f"blobs/{digest}"), content)
    return buffer.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.create_system, entry.external_attr = 3, 0o644 << 16  # the same on every system
    return entry


def _unpack(body: memoryview) -> tuple[Json, dict[str, bytes]]:
    """Return plan.json and the blobs by digest; raises Malformed."""
    members = _members(body)
    text = members.pop("plan.json", None)
    if text is None:
        raise Malformed("there is no plan.json")
    blobs: dict[str, bytes] = {}
    for name, content in members.items():
        digest = sha256(content).hexdigest()
        if name != f"blobs/{digest}":
            raise Malformed(f"the blob {name!r} has another digest or name")
        blobs[digest] = content
    try:
        return json.loads(text, parse_constant=_refuse_constant), blobs
    except ValueError as error:
        raise Malformed(f"plan.json is not JSON: {error}") from error


def _refuse_constant(word: str) -> Json:
    raise Malformed(f"plan.json holds {word}, which is not JSON")


def _members(body: memoryview) -> dict[str, bytes]:
    """Return the members of a ZIP in which each is stored as it is, once, and nothing inflates."""
    try:
        with zipfile.ZipFile(BytesIO(body)) as archive:
            entries = archive.infolist()
            if len({entry.filename for entry in entries}) != len(entries):
                raise Malformed("a name occurs twice")
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise Malformed("a member is compressed")
            if sum(entry.file_size for entry in entries) > len(body):
                raise Malformed("the members claim more bytes than there are")
            return {entry.filename: archive.read(entry) for entry in entries}
    except (
        *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error, EOFError, OSError),
        *(NotImplementedError, RuntimeError, ValueError, OverflowError, LookupError),
    ) as error:
        raise Malformed(f"its archive is broken: {error}") from error
