"""How many instances there are of a model, on what, and what they must hold to run."""

from collections.abc import Iterator

from ...dsl.diagnostic import Diagnostic
from ..subject import Subject

_CODE = "HR613"
_GPU = 1


def check(subject: Subject) -> Iterator[Diagnostic]:
    if subject.is_ensemble:
        return
    kinds = ("KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL")
    for i, group in enumerate(subject.config.instance_group):
        path = ("instance_group", i)
        if group.kind != _GPU and group.gpus:
            yield subject.error(
                _CODE,
                f"instances of {kinds[group.kind]} have no `gpus`",
                *path,
                "gpus",
                0,
                help="write `kind: KIND_GPU`, or leave out `gpus`",
            )
        if group.profile and subject.config.backend not in ("", "tensorrt"):
            yield subject.error(
                _CODE, "`profile` is for TensorRT's models alone", *path, "profile", 0
            )
        for j, profile in enumerate(group.profile):
            if not profile.isdigit():
                message = f"a profile is a number from 0, not `{profile}`"
                yield subject.error(_CODE, message, *path, "profile", j)
        for j, resource in enumerate(group.rate_limiter.resources):
            where = (*path, "rate_limiter", "resources", j)
            if not resource.name:
                yield subject.error(_CODE, "a resource without a name", *where)
            if not resource.count:
                message = f"instances hold none of `{resource.name}`"
                yield subject.error(_CODE, message, *where, help="write `count: 1` or more")
