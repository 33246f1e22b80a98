"""Exports: a plan as what another system serves.

In order of control flow: `target` says what a target is and finds those that there are; each file
of `targets` is one; `triton` and `jetson` make the parts of theirs, and `needs` says what has to be
installed for a plan.
"""
