"""All ops, found by listing the folders of their families."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType

from .op import Op

BARE_FAMILY = "core"
"""The family whose ops are also known without it."""


@dataclass(frozen=True, slots=True)
class Family:
    """A folder of ops: what `use image` names. `summary` is the folder's docstring."""

    name: str
    summary: str
    ops: MappingProxyType[str, Op]


@dataclass(frozen=True, slots=True)
class Catalog:
    """The ops by family and name."""

    _families: MappingProxyType[str, Family]

    @property
    def families(self) -> tuple[str, ...]:
        """The names of the families, in alphabetical order."""
        return tuple(self._families)

    def family(self, name: str) -> Family | None:
        """Return a family, None when there is none of that name."""
        return self._families.get(name)

    def find(self, family: str | None, name: str) -> Op | None:
        """Return the op `family.name`, a bare one for family None; None when there is none."""
        found = self._families.get(BARE_FAMILY if family is None else family)
        return None if found is None else found.ops.get(name)

    def op(self, name: str) -> Op:
        """Return an op by its full name (`image.resize`), as plans hold it; KeyError if absent."""
        found = self.find(*_split(name))
        if found is None:
            raise KeyError(f"the standard library has no op `{name}`")
        return found

    def nearest(self, family: str | None, name: str) -> str | None:
        """Return the name most like a wrong one, as it would be written; None if none is like it.

        The same name in another family is nearer than one like it in this.
        """
        elsewhere = next((op.name for op in self if op.name.partition(".")[2] == name), None)
        home = self._families.get(BARE_FAMILY if family is None else family)
        if elsewhere is not None or home is None:
            return elsewhere
        near = next(iter(get_close_matches(name, home.ops, n=1)), None)
        return near if near is None or family is None else f"{family}.{near}"

    def nearest_family(self, name: str) -> str | None:
        """Return the family whose name is most like a wrong one, None if none is like it."""
        return next(iter(get_close_matches(name, self._families, n=1)), None)

    def __iter__(self) -> Iterator[Op]:
        return (op for family in self._families.values() for op in family.ops.values())


@cache
def load_catalog() -> Catalog:
    """Return all ops. They follow from the installed files alone, so they are listed once."""
    root = Path(__file__).parent
    names = sorted(info.name for info in pkgutil.iter_modules([str(root)]) if info.ispkg)
    return Catalog(MappingProxyType({name: _load_family(root, name) for name in names}))


def _load_family(root: Path, name: str) -> Family:
    package = importlib.import_module(f".{name}", __package__)
    ops: dict[str, Op] = {}
    for info in pkgutil.iter_modules([str(root / name)]):
        module = importlib.import_module(f".{name}.{info.name}", __package__)
        listed: tuple[Op, ...] = getattr(module, "OPS", ()) or (module.OP,)
        for op in listed:
            family, _, bare = op.name.partition(".")
            if family != name or bare in ops:
                raise ValueError(
                    f"{module.__name__} defines `{op.name}` in the wrong place or twice"
                )
            ops[bare] = op
    return Family(
        name, (package.__doc__ or "").strip(), MappingProxyType(dict(sorted(ops.items())))
    )


def _split(name: str) -> tuple[str | None, str]:
    family, dot, bare = name.partition(".")
    return (family, bare) if dot else (None, name)
