"""The Open Inference Protocol, without I/O: bytes in, requests out, and the way back.

In the order in which a request meets them: `limits` (how much is looked at), `names` (from
outside), `models` (pipelines as the protocol sees them), `datatypes`, `forms` (how each value
travels), `raw` (bytes of tensors), `messages`, `field_count`, `frames`, `protobuf_codec` and
`protobuf_writer` (gRPC), `json_codec` with `json_messages` and `layouts` (JSON that is known),
`generate_codec` and `json_values` (HTTP), `parameters` and `forwarding` (headers as such), `inputs`
and `results` (to and from the engine's values),
`deliveries` (how outputs are to be sent), `metadata`, `configuration` and `overrides` (what models
are, and what of it a load may change), one file an extension in `ext/`; `operation` is what can be
asked besides inference, `operations` the table of all of it and `openapi` its description;
`signature` (with `type_text`), `faults` and `remote` are for our own client.
"""
