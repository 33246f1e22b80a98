"""gRPC: bytes in, bytes out, behind one seam with two carriers.

`call` is the seam: what a method is, and how it answers now or later. `methods`, `health` and
`reflection` are the methods served, `parsing` reads their messages, `status` is the table of codes.
`native` carries them on pygrpc-native, whose HTTP/2 runs outside the interpreter's lock; `aio` on
grpcio, which can also do TLS and streams. On one port `native` hands on to `aio` what is not for
it; `settling` lets it close when its last answers have left. `unread` bounds what callers of `aio`
leave unread.
"""
