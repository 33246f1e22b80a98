"""Which versions of an app are served: those that its policy says, of those that are there."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias, assert_never


@dataclass(frozen=True, slots=True)
class Latest:
    """The `count` highest ones."""

    count: int = 1

    def __str__(self) -> str:
        return f"latest:{self.count}"


@dataclass(frozen=True, slots=True)
class All:
    """Every one."""

    def __str__(self) -> str:
        return "all"


@dataclass(frozen=True, slots=True)
class Specific:
    """These, of which some may be missing."""

    versions: frozenset[int]

    def __str__(self) -> str:
        return "specific:" + ",".join(map(str, sorted(self.versions)))


Policy: TypeAlias = Latest | All | Specific


def chosen(
    policy: Policy, available: Collection[int], besides: Collection[int] = ()
) -> frozenset[int]:
    """Return the versions to serve; those `besides`, which get a part of the traffic, are served
    whatever the policy says and do not count as the latest."""
    extra = frozenset(besides) & frozenset(available)
    others = sorted(set(available) - extra)
    match policy:
        case Latest(count):
            return extra | frozenset(others[-count:])
        case All():
            return extra | frozenset(others)
        case Specific(versions):
            return extra | (versions & frozenset(others))
        case _:
            assert_never(policy)


def read_policy(text: str) -> Policy:
    """Read `latest`, `latest:2`, `all`, `specific:1,3`; raises ValueError."""
    if text == "all":
        return All()
    if match := re.fullmatch(r"latest(?::([1-9][0-9]{0,8}))?", text, re.ASCII):
        return Latest(int(match[1] or 1))
    if match := re.fullmatch(r"specific:([0-9]{1,18}(?:,[0-9]{1,18})*)", text, re.ASCII):
        return Specific(frozenset(map(int, match[1].split(","))))
    raise ValueError(f"`{text}` is no policy: latest, latest:2, all or specific:1,3")
