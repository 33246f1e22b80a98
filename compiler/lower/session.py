"""What one compilation shares: the mistakes, the ops, and the files it has read."""

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from ...stdlib.catalog import Catalog
from ..graph import Blob
from ..signatures import FileSignature, NotOnnx, pack, read_signature
from .problems import Problems


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """`need_models` is False for a check, which does without model files where it can; so does a
    compilation for models that it stubs."""

    problems: Problems
    catalog: Catalog
    need_models: bool
    stubbed: frozenset[str] = frozenset()
    _signatures: dict[Path, FileSignature | NotOnnx] = field(
        default_factory=dict[Path, "FileSignature | NotOnnx"]
    )
    _blobs: dict[tuple[Path, tuple[tuple[str, int], ...]], Blob] = field(
        default_factory=dict[tuple[Path, "tuple[tuple[str, int], ...]"], Blob]
    )

    def needs(self, model: str) -> bool:
        """Whether the file of a model must be there."""
        return self.need_models and model not in self.stubbed

    def onnx_signature(self, path: Path) -> FileSignature:
        """Return the signature of an ONNX file, read once; raises NotOnnx or OSError."""
        found = self._signatures.get(path)
        if found is None:
            try:
                found = read_signature(path)
            except NotOnnx as error:
                found = error
            self._signatures[path] = found
        if isinstance(found, NotOnnx):
            raise found
        return found

    def onnx_blob(self, path: Path, free_axes: tuple[tuple[str, int], ...]) -> Blob:
        """Return the bytes of a model that goes into the plan; raises NotOnnx or OSError."""
        key = (path, free_axes)
        if key not in self._blobs:
            self._blobs[key] = blob(pack(path, free_axes))
        return self._blobs[key]


def blob(content: bytes) -> Blob:
    return Blob(sha256(content).hexdigest(), content)
