"""Models of a Triton repository as sources of the language.

In order of control flow: `program` writes a model as the text of a `.pipe` file, once `unserved`
has found nothing that would be left out: through `ensembles` for the steps of what `members` it is
made of, with `axes` where only some of them batch, `stages` for models and `decoupled` for those
that answer often, `sequences` for what they are told and keep, and `schedule` for how they run.
`scripts` writes those that call others (BLS). `draft` is what is being written, `tensors` and
`names` are how. `described`, `labels` and `warmups` are what a source does not say.
"""
