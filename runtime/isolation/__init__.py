"""headrace.runtime.isolation: Python stages in processes of their own.

In order of control flow: `pool` is what a stage calls in place of its function, by a `lease` where
several engines have it in common: it has a `process` (of a `function`, its `program`) for each
worker, which a thread keeps: it starts it, logs its `output`, and when it has died says how
(`ending`) and starts it again when `supervisor` says so. A call goes over a `channel` as a `frame`
on a socket (in `haste`, while answers come at once), its `values` (a `message`, and its `reading`)
in shared `memory`; `worker` is the other end.

What was weighed. `multiprocessing.shared_memory` names its segments in /dev/shm: a process that is
killed leaves them there, a tracker that is meant to help unlinks what others still use, and anyone
who learns a name may attach. Triton's Python backend keeps its queues, mutexes and condition
variables in such a segment: a stub that dies with a mutex held hangs the server, and an error that
told a segment's name was a hole. Ray and PyTorch's DataLoader pickle what is no tensor. Here memory
is a memfd: it has no name, goes with the last who maps it, and is sealed, so that no one can make
it shorter under a reader. Nothing but tensors and text lies in it: who may read or write is told
by frames of a fixed size over a socket pair, whose end says that the other side has died. Nothing
is unpickled, and a worker's every length is held against the memory that there is.

Workers are fresh interpreters, for a fork of a process with threads inherits locks that nobody
will release. A worker dies with the thread that started it (PR_SET_PDEATHSIG is told of threads,
not processes), which is the one that keeps it.
"""
