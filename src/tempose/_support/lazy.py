"""Public names that are imported when first used, so that importing a package is quick."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, where: Mapping[str, str], modules: Iterable[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """``__all__``, ``__getattr__`` and ``__dir__`` of a package from one table.

    Parameters
    ----------
    package
        Its ``__name__``.
    where
        The module of each public name, relative to the package.
    modules
        Modules of the package that are public as they are.
    """

    def get(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{where[name]}"), name)
        setattr(import_module(package), name, value)  # the next use finds it at once
        return value

    return sorted(where), get, lambda: sorted([*where, *modules])
