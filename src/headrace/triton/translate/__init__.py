"""Models of a Triton repository as sources of the language.

In order of control flow: `program` writes a model as the text of a `.pipe` file, through
`ensembles` for steps, `stages` for models, `sequences` for what they are told and keep, and
`schedule` for how they run; `draft` is what is being written, `tensors` and `names` are how.
"""
