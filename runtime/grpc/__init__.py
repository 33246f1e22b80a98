"""gRPC: bytes in, bytes out, behind one seam with two carriers.

`call` is the seam: what a method is, and how it answers now or later. `methods` are the methods of
the protocol's service, `status` its table of codes. `native` carries them on pygrpc-native, whose
HTTP/2 runs outside the interpreter's lock; `aio` on grpcio, which can also do TLS and streams in
both directions. On one port `native` hands on to `aio` what it cannot do.
"""
