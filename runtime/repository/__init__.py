"""headrace.runtime.repository: which versions of which plans answer, while they come and go.

`policy` and `shares` decide which versions are served and who gets which part of the traffic;
`state` is what is told of them. `version` is a plan, loaded; `route` says where a request goes,
`routes` makes routes of what is live; `shadow` shows a version copies; `counts` keeps what closed
engines have counted. `repository` loads, swaps and drains; `folder` finds plans on disk and `watch`
sees them change.
"""
