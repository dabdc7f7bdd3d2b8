"""Options as dataclass fields that know how to be said on a command line: written once, beside what they configure."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast

from tempose.errors import OptionError


@dataclass(frozen=True)
class Shown:
    """How an option is shown to people.

    Attributes
    ----------
    text
        One line of help.
    choices
        The words it takes, if it takes words only; with a mapping, each with its meaning.
    metavar
        What stands for its value in the help.
    parse
        From text to its value; by default as its type says.
    everyday
        Whether it belongs on the first screen of the help.
    """

    text: str
    choices: Sequence[str] | Mapping[str, str] = ()
    metavar: str | None = None
    parse: Callable[[str], Any] | None = None
    everyday: bool = False


def option(default: Any, text: str, **more: Any) -> Any:
    """A field of an option object: its default, its help, and more of :class:`Shown`."""
    return field(default=default, metadata={"shown": Shown(text, **more)})


def shown_options(kind: type) -> dict[str, Shown]:
    """The options of a class that people can set, by name."""
    return {one.name: one.metadata["shown"] for one in fields(kind) if "shown" in one.metadata}


def check_choices(options: Any) -> None:
    """Refuse a word that is none of those an option takes."""
    for name, shown in shown_options(type(options)).items():
        value = getattr(options, name)
        if shown.choices and value is not None and value not in shown.choices:
            raise OptionError(f"unknown {name.replace('_', ' ')} {value!r}: choose one of {', '.join(shown.choices)}")


def require(good: bool, message: str) -> None:
    """Refuse options with a message unless they are good."""
    if not good:
        raise OptionError(message)


F = TypeVar("F", bound=Callable[..., Any])


def teaching(function: F) -> F:
    """The same function, which says what was probably meant where it is given a keyword that it does not have."""
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*arguments: Any, **keywords: Any) -> Any:
        unknown = next((name for name in keywords if name not in known), None)
        if unknown is not None:
            like = difflib.get_close_matches(unknown, known, n=1)
            hint = f"did you mean {like[0]}?" if like else f"there are {', '.join(known)}"
            raise OptionError(f"{function.__name__} has no option {unknown!r}; {hint}")
        return function(*arguments, **keywords)

    return cast(F, checked)
