"""Stand-in for torchvision: every name in it can be imported, none can be used.

Transformers and SGLang import it for the sake of image models. PyPI's build is for CUDA and does
not load beside a CPU build of torch; a text model needs none of it.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__version__ = "0.28.0"


class Absent(ModuleType):
    """A module, class or function that is not there."""

    __path__: list[str] = []  # noqa: RUF012 - that of a package

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise NotImplementedError(f"{self.__name__}: this image serves text models only")


class Finder(MetaPathFinder, Loader):
    """Finds every submodule."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if not name.startswith(f"{__name__}."):
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> Absent:
        return Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


sys.meta_path.insert(0, Finder())
__getattr__ = Absent(__name__).__getattr__
