"""The Open Inference Protocol, without I/O: bytes in, requests out, and the way back.

In the order in which a request meets them: `limits` (what is refused unread), `names`, `models`
(which pipeline is meant), `datatypes` and `forms` (a pipeline's values as tensors), `raw` (their
bytes), `messages` and `protobuf_codec` (gRPC), `json_codec` (HTTP), `metadata`, `oip` (what the
front ends call), and one file an extension in `ext/`.
"""
