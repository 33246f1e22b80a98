"""What kind of file this is, from its first and last bytes, and where it should go.

The rules around the model are those it is published with (magika 1.0.3); its tables come in as
the JSON files of that package.
"""

import json
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

END = 1024  # bytes looked at from either end, after white space is stripped
BLOCK = 4096  # bytes read from either end
PADDING = 256  # stands where there is no byte
FEWEST = 8  # bytes from which the model can tell anything

PICTURES = frozenset(
    ("bmp", "gif", "icns", "ico", "jp2", "jpeg", "png", "psd", "qoi", "tga", "tiff", "webp")
)
"""Those of group image that hold pixels and can be decoded here."""


def ends(file: bytes) -> tuple[NDArray[np.int32], np.bool_]:
    """Return the bytes at both ends as numbers, and whether there are enough of them."""
    first, last = file[:BLOCK].lstrip()[:END], file[-BLOCK:].rstrip()[-END:]
    tokens = np.full(2 * END, PADDING, np.int32)
    tokens[: len(first)] = np.frombuffer(first, np.uint8)
    tokens[len(tokens) - len(last) :] = np.frombuffer(last, np.uint8)
    return tokens, np.bool_(len(file) >= FEWEST and len(first) >= FEWEST)


def judge(prob: NDArray[np.float32], labels: bytes, kinds: bytes) -> tuple[str, np.float32]:
    """Return the likeliest label and its probability; a general label if it is not likely enough.

    `labels` are the model's labels and thresholds, `kinds` what is known of each kind of file.
    """
    rules = _table(labels)
    place = int(prob.argmax())
    likeliest: str = rules["target_labels_space"][place]
    label: str = rules["overwrite_map"].get(likeliest, likeliest)
    least = rules["thresholds"].get(likeliest, rules["medium_confidence_threshold"])
    if float(prob[place]) < least:
        label = "txt" if _kind(kinds, label).get("is_text") else "unknown"
    return label, prob[place]


def guess(file: bytes) -> tuple[str, np.float32]:
    """Return the label of a file that is too short for the model."""
    if not file:
        return "empty", np.float32(1)
    try:
        file[:BLOCK].decode()
    except UnicodeDecodeError:
        return "unknown", np.float32(1)
    return "txt", np.float32(1)


def destination(label: str, kinds: bytes) -> tuple[str, str]:
    """Return a label's group, and its route: `image`, `audio`, `text` or `other`."""
    group: str = _kind(kinds, label).get("group") or "unknown"
    if group == "image":
        return group, "image" if label in PICTURES else "other"
    return group, group if group in ("audio", "text") else "other"


def nothing() -> tuple[NDArray[np.object_], NDArray[np.float32], NDArray[np.float32]]:
    """Return the text, scores and boxes of a file in which nothing is read."""
    return np.empty(0, object), np.empty(0, np.float32), np.empty((0, 4, 2), np.float32)


@lru_cache(maxsize=4)
def _table(document: bytes) -> dict[str, Any]:  # JSON of others: its shape is theirs
    """Parse a table once: the same bytes come with every call."""
    return json.loads(document)


def _kind(kinds: bytes, label: str) -> dict[str, Any]:  # as above
    return _table(kinds).get(label, {})
