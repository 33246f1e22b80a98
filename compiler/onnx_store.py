"""ONNX models of one compilation by the digest of their bytes, each parsed and written once."""

from hashlib import sha256

import onnx

from .graph import Blob


class OnnxStore:
    """A cache between bytes and protos. A proto taken from here is shared: never change it."""

    def __init__(self) -> None:
        self._protos: dict[str, onnx.ModelProto] = {}

    def proto(self, blob: Blob) -> onnx.ModelProto:
        """Return the model that the bytes hold; raises DecodeError when they hold none."""
        found = self._protos.get(blob.digest)
        if found is None:
            found = onnx.ModelProto.FromString(blob.content)
            self._protos[blob.digest] = found
        return found

    def blob(self, proto: onnx.ModelProto) -> Blob:
        """Return the bytes of a new model, the same for the same model, and keep it."""
        content = proto.SerializeToString(deterministic=True)
        digest = sha256(content).hexdigest()
        self._protos.setdefault(digest, proto)
        return Blob(digest, content)
