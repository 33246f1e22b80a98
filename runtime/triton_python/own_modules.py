"""Modules of a model that runs in the engine's own process: each instance has its own.

In a process of its own a model finds what lies beside it by bare names (`import utils`), and may
say so again within any function, in any thread. Here two models may both have a `utils`, and each
instance has its `triton_python_backend_utils`, which knows for whom it speaks. So these are
imported under a package that nobody else has, one for each instance, and its modules have an
`__import__` of their own: Python asks for that by the globals of whoever imports, so it makes no
difference when, or from which thread. What is installed is imported as ever, and shared.

A library that is shared cannot tell for which model it imports. What it would find only because a
model has put its folder into `sys.path` is refused, as the next model would be given it too.
"""

import builtins
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final, cast
from uuid import uuid4

from ..stage import StageError

WORKER: Final = str(Path(__file__).parent / "worker")
_UTILS: Final = "triton_python_backend_utils"
_CURE: Final = "import it in a file beside the model, or leave the model its process"


class OwnModules(MetaPathFinder):
    """Those of one instance, of the model in `folder`, whose version has a folder in it. They are
    there until it is closed."""

    def __init__(self, model: str, folder: Path, version: Path) -> None:
        self._model, self._folder = model, folder
        self._folders = (str(folder), str(folder.resolve()))
        self._beside = [str(version), str(folder)]
        self.name = f"headrace_model_{uuid4().hex}"
        self._own: dict[str, bool] = {}
        self._builtins = {**vars(builtins), "__import__": self._import}
        package = ModuleType(self.name)
        package.__path__ = [WORKER, *self._beside]
        sys.modules[self.name] = package
        sys.meta_path.insert(0, self)

    def close(self) -> None:
        """Forget them; the model is over."""
        sys.meta_path.remove(self)
        for name in [one for one in list(sys.modules) if self._has(one)]:
            sys.modules.pop(name, None)
        if not any(other.lies_here(str(self._folder)) for other in _all()):
            sys.path[:] = [one for one in sys.path if not self.lies_here(one)]
            for path in [one for one in list(sys.path_importer_cache) if self.lies_here(one)]:
                sys.path_importer_cache.pop(path, None)

    def lies_here(self, path: str) -> bool:
        """Whether something is in the model's folder."""
        return any(path == one or path.startswith(f"{one}/") for one in self._folders)

    def utils(self, name: str) -> ModuleType:
        """Return a module of this instance's `triton_python_backend_utils`."""
        return importlib.import_module(f"{self.name}.{_UTILS}.{name}")

    def load(self, file: str) -> ModuleType:
        """Return the module of a model: a member of the package that its version's folder is, as it
        is in a process of its own; raises whatever it does."""
        path = Path(file)
        package = f"{self.name}.{path.parent.name}"
        importlib.import_module(package)
        name = f"{package}.{path.stem}"
        spec = spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise StageError(f"{file} is no Python file")
        self._let_import(spec)
        sys.modules[name] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,  # noqa: ARG002 as all finders are asked
    ) -> ModuleSpec | None:
        if self._has(fullname):
            spec = PathFinder.find_spec(fullname, path)
            if spec is not None:
                self._let_import(spec)
            return spec
        if path is None:
            self._refuse_bare(fullname)
        return None

    def _refuse_bare(self, name: str) -> None:
        """Raise ImportError where others are about to have a module of this model's for theirs."""
        theirs = [one for one in sys.path if self.lies_here(one)]
        if name == _UTILS or (theirs and PathFinder.find_spec(name, theirs) is not None):
            found = _found(name)
            if found is None or found.loader is None:
                message = f"`{name}` is of model `{self._model}`, which runs in the server's own"
                raise ImportError(f"{message} process: {_CURE}", name=name)

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Do what an `import` in one of these modules asks for."""
        top, *_ = name.split(".", 1)
        if level or not self._is_own(top):
            found = builtins.__import__(name, globals, locals, fromlist or (), level)
            return self._importing() if found is importlib else found
        if fromlist:
            return builtins.__import__(f"{self.name}.{name}", globals, locals, fromlist, 0)
        importlib.import_module(f"{self.name}.{name}")
        return sys.modules[f"{self.name}.{top}"]

    def _importing(self) -> ModuleType:
        """Return what these modules have for `importlib`."""
        stands = ModuleType("importlib")
        vars(stands).update(vars(importlib), import_module=self._import_module)
        return stands

    def _import_module(self, name: str, package: str | None = None) -> ModuleType:
        own = not name.startswith(".") and self._is_own(name.partition(".")[0])
        return importlib.import_module(f"{self.name}.{name}" if own else name, package)

    def _is_own(self, top: str) -> bool:
        """Whether a bare name is one of these modules; what is installed comes before what lies
        beside a model, as in a process of its own."""
        if top == _UTILS:
            return True
        known = self._own.get(top)
        if known is not None:
            return known
        found = _found(top, self)
        if found is None or found.loader is None:
            package = sys.modules[self.name]
            added = [one for one in sys.path if self.lies_here(one) and one not in package.__path__]
            package.__path__ = [*package.__path__, *added]
            here = PathFinder.find_spec(f"{self.name}.{top}", package.__path__)
            if here is None and found is None:
                return False  # for now
            beside = found is None or self._is_beside(found)
            own = here is not None and (here.loader is not None or beside)
        else:
            own = self._is_beside(found)
        self._own[top] = own
        return own

    def _is_beside(self, spec: ModuleSpec) -> bool:
        """Whether something was found in the model's folder, and nowhere else."""
        places = [spec.origin] if spec.origin is not None else spec.submodule_search_locations
        return all(map(self.lies_here, places or ()))

    def _let_import(self, spec: ModuleSpec) -> None:
        """Let a module be run with builtins whose imports are these."""
        if spec.loader is not None:
            run = cast("Callable[[ModuleType], None]", spec.loader.exec_module)
            spec.loader.exec_module = partial(self._run, run)

    def _run(self, run: Callable[[ModuleType], None], module: ModuleType) -> None:
        vars(module)["__builtins__"] = self._builtins
        run(module)

    def _has(self, module: str) -> bool:
        return module == self.name or module.startswith(f"{self.name}.")


def _all() -> list[OwnModules]:
    """Return those of all instances that there are."""
    return [one for one in sys.meta_path if isinstance(one, OwnModules)]


def _found(name: str, of: OwnModules | None = None) -> ModuleSpec | None:
    """Return where a bare name is found, but for what is beside a model, or beside others than the
    one that it is asked `of`."""
    models = _all()
    others = [one for one in models if one is not of]
    path = [one for one in sys.path if not any(other.lies_here(one) for other in others)]
    for finder in sys.meta_path:
        if finder not in models:
            found = finder.find_spec(name, path if finder is PathFinder else None)
            if found is not None:
                return found
    return None
