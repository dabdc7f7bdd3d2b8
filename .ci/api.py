"""Write docs/reference/api.md: every public name with the first sentence of what it says about itself; a page per namespace.

python .ci/api.py
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import tempose

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "api.md"
HEAD = """# The public names

<!-- written by `python .ci/api.py`; tests/test_api.py checks that no name is missing -->

Everything that is public is importable from `tempose`, or from one of its namespaces below; each name's docstring has its
arguments, shapes, units and frames (`help(tempose.solve)`). Everything else may change without notice. New here? Start with
the [first graph](../start/first-graph.md); words are explained in the [glossary](glossary.md).
This page is the list; the docstrings are on the pages of the namespaces.

```{toctree}
:maxdepth: 1
names/tempose
PAGES
```
"""
PLACE = PAGE.parent / "names"
NAMESPACE = """# {module}

{about}. Made from the docstrings, by the site.

<!-- every name of {module} -->
"""


def sentence(value: object) -> str:
    """The first sentence of a docstring; of a plain value its kind."""
    if not (inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)):
        return f"a {type(value).__name__}"
    paragraph = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    plain = re.sub(r":\w+:`[~.]?([^`<]*?)(?: <[^>]*>)?`", r"`\1`", paragraph).replace("``", "`")
    plain = re.sub(r"`tempose(?:\.\w+)*\.(\w+)`", r"`\1`", plain)
    return re.split(r"(?<=[.;])\s", plain)[0].rstrip(".;").replace("|", "\\|")


def arguments(name: str, value: object) -> str:
    """``name(a, b, *, c)``, without types and defaults, cut where it gets long."""
    if not inspect.isroutine(value):
        return name
    shown = []
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in "".join(shown):
            shown.append("*")
        shown.append(str(parameter.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty)))
    return f"{name}({', '.join(shown[:5] + ['…'] * (len(shown) > 5))})"


def rows(module: str) -> Iterator[str]:
    """One row of the table for each public name of a module."""
    yield "| name | what |"
    yield "|---|---|"
    for name in sorted(import_module(module).__all__, key=str.lower):
        value = getattr(import_module(module), name)
        yield f"| `{arguments(name, value)}` | {sentence(value)} |"


def main() -> int:
    """Write the list, and a page for each namespace."""
    pages = "\n".join(f"names/tempose.{name}" for name in tempose.NAMESPACES)
    PLACE.mkdir(exist_ok=True)
    for name, about in {"": "the names that most programs need", **tempose.NAMESPACES}.items():
        module = f"tempose.{name}".rstrip(".")
        page = NAMESPACE.format(module=module, about=f"{about[0].upper()}{about[1:]}")
        (PLACE / f"{module}.md").write_text(page)
    lines = [HEAD.replace("PAGES", pages), "## `tempose`", "", *rows("tempose")]
    for name, about in tempose.NAMESPACES.items():
        lines += ["", f"## `tempose.{name}`", "", f"{about[0].upper()}{about[1:]}.", "", *rows(f"tempose.{name}")]
    PAGE.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
