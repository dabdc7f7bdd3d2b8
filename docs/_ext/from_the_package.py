"""Pages that come from the package itself: a comment in a page stands for every command, or every public name of a module.

``<!-- every command -->`` becomes the options of all commands, as the parser has them; ``<!-- every name of tempose.model -->``
the docstrings of a namespace.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

COMMANDS = "<!-- every command -->"
NAMES = re.compile(r"<!-- every name of (tempose[.\w]*) -->")


def cell(text: str) -> str:
    """Text for a cell of a table, on one line."""
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;").replace("_", "\\_")


def option(action: argparse.Action) -> str:
    """How an option or an argument is written."""
    value = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest.upper())
    value = value if isinstance(value, str) else " ".join(value)  # several arguments of one option
    if not action.option_strings:
        return f"`{value}`" + {"+": " …", "*": " …"}.get(str(action.nargs), "")
    takes = "" if action.nargs == 0 else (f" [{value}]" if action.nargs == "?" else f" {value}")
    return ", ".join(f"`{name}{takes}`" for name in action.option_strings)


def commands() -> Iterator[str]:
    """Every command: what it does, its options by group, its examples."""
    from tempose.cli.parser import COMMANDS as SUMMARIES
    from tempose.cli.parser import build_parser

    parser = build_parser()
    of_commands = next(one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    for name, summary in SUMMARIES.items():
        own: Any = of_commands.choices[name]
        yield f"## tempose {name}\n\n{cell(summary[0].upper() + summary[1:])}.\n"
        for group in own._action_groups:
            shown = [one for one in group._group_actions if one.help != argparse.SUPPRESS and one.dest != "help"]
            if not shown:
                continue
            yield f"| {cell(group.title or '')} | |\n|---|---|"
            for one in shown:
                yield f"| {option(one)} | {cell((one.help or '') % {'default': one.default})} |"
            yield ""
        for flag, words in own.words.items():
            yield f"What `{flag}` takes:\n\n| | |\n|---|---|"
            yield from (f"| `{word}` | {cell(meaning)} |" for word, meaning in words.items())
            yield ""
        examples = re.sub(r"(?m)^  ", "", (own.epilog or "").partition("example:\n")[2])
        if examples:
            yield f"```text\n{examples}\n```\n"


def data(value: object) -> str:
    """What a plain value is."""
    shown = ", ".join(f"``{key}``" for key in value) if isinstance(value, dict | tuple | list) else f"``{value!r}``"
    return f"A {type(value).__name__}: {shown}."


def names(module: str) -> Iterator[str]:
    """Docstrings of a namespace; a name that ``tempose`` has, too, is described there."""
    import tempose

    found = import_module(module)
    elsewhere = [] if module == "tempose" else [name for name in found.__all__ if name in tempose.__all__]
    if elsewhere:
        places = ", ".join(f"{{py:obj}}`tempose.{name}`" for name in elsewhere)
        yield f"Also in `tempose`, and described there: {places}.\n"
    for name in sorted(found.__all__, key=str.lower):
        value = getattr(found, name)
        if name in elsewhere:
            continue
        if inspect.ismodule(value):
            kind, options = "automodule", "   :members:\n"
        elif inspect.isclass(value):
            kind, options = "autoclass", "   :members:\n"
        elif inspect.isroutine(value):
            kind, options = "autofunction", ""
        else:  # plain data, whose docstring is that of its type
            kind, options = "py:data", f"\n   {data(value)}\n"
        yield f"```{{eval-rst}}\n.. {kind}:: {module}.{name}\n{options}```\n"


def expand(_: Any, __: str, source: list[str]) -> None:
    """Put what is meant in place of the comments of a page."""
    text = source[0]
    if COMMANDS in text:
        text = text.replace(COMMANDS, "\n".join(commands()))
    source[0] = NAMES.sub(lambda match: "\n".join(names(match[1])), text)


def keep_colons(_: Any, what: str, __: str, ___: Any, ____: Any, lines: list[str]) -> None:
    """Let the sentence of a property be one: Napoleon takes what is before a colon for its type."""
    if what in ("property", "attribute") and lines:
        lines[0] = lines[0].replace(": ", " – ")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", expand)
    app.connect("autodoc-process-docstring", keep_colons, priority=400)  # before Napoleon
    return {"parallel_read_safe": True}
