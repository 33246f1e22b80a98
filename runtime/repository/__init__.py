"""headrace.runtime.repository: which versions of which plans answer, while they come and go.

`policy` and `shares` decide which versions are served and who gets which part of the traffic;
`state` is what is told of them. `version` is a plan, loaded, one of those of an `app`; `route` says
where a request goes, `routes` makes routes of what is live; `shadow` shows a version copies.
`repository` loads and swaps, `drains` lets go, `heap` gives their memory back, `counts` keeps what
closed engines have counted, `model_counts` for which models and `attribution` whose that is;
`figures` adds them to those of other processes; `nested` is what stages may ask of it. `folder`
finds plans on disk, `watch` sees them change, and `keeper` keeps a repository as they are;
`brought` are plans that callers bring.
"""
