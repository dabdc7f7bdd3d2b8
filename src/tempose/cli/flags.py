"""Options of a solve as flags of a command: made from the option objects, and made into them again."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any, get_args, get_type_hints

from tempose._support.options import Shown, shown_options
from tempose.cli.commands import CommandParser
from tempose.dynamics.options import Langevin
from tempose.errors import OptionError
from tempose.optimum.options import OPTIMISERS, Newton, Optimiser, TgMcmc, optimiser_named
from tempose.options import SolveOptions
from tempose.outliers.options import Robust
from tempose.sampling.options import SAMPLERS, SamplerOptions, sampler_named

NESTED: dict[str, tuple[type, ...]] = {
    "robust": (Robust,),
    "optimiser": (TgMcmc,),
    "sampler": (SamplerOptions, Langevin),
}
"""Options that are objects, and the classes whose options become flags beside theirs."""
_BY_NAME = {"optimiser": OPTIMISERS, "sampler": SAMPLERS}
_FLAG_NAMES: dict[tuple[type, str], str] = {
    (TgMcmc, "steps"): "optimise_steps"
}  # beside the object's name, "steps" is enough
_WITHOUT_VALUE = {"trust_odometry": 0.99}  # what a flag means that was given without a value


def count_or_share(text: str) -> float:
    """A whole number, or a share below 1, from the command line."""
    value = float(text)
    return value if value < 1.0 else int(value)


# ---------------------------------------------------------------------- options to flags


def add_options(
    parser: CommandParser,
    headings: Mapping[str, str],
    names: Iterable[str] | None = None,
    texts: Mapping[str, str] | None = None,
) -> None:
    """Add flags for options of :class:`~tempose.options.SolveOptions`, each followed by those of the objects it may be.

    Parameters
    ----------
    parser
        Of the command.
    headings
        By name of an option: the heading that it and those after it stand under. The first needs one.
    names
        Options to add; all by default.
    texts
        Help in place of the option's own, where the command has another default.
    """
    shown = shown_options(SolveOptions)
    for name in shown if names is None else names:
        if name in headings:
            group = parser.add_argument_group(headings[name])
        _add_flag(parser, group, SolveOptions, name, (texts or {}).get(name))
        for kind in NESTED.get(name, ()):
            add_flags(parser, group, kind)


def add_flags(parser: CommandParser, group: argparse._ArgumentGroup, kind: type) -> None:
    """Add flags for the options of a class, but for those of its bases: these have them already, or get them elsewhere."""
    for name in _own(kind):
        _add_flag(parser, group, kind, name)


def _own(kind: type) -> list[str]:
    """Options of a class that none of its bases has."""
    inherited = {
        name for base in kind.__mro__[1:] if hasattr(base, "__dataclass_fields__") for name in shown_options(base)
    }
    return [name for name in shown_options(kind) if name not in inherited]


def _dest(kind: type, name: str) -> str:
    return _FLAG_NAMES.get((kind, name), name)


def flag(kind: type, name: str) -> str:
    """An option as it is called on a command line."""
    return "--" + _dest(kind, name).replace("_", "-")


def _add_flag(
    parser: CommandParser, group: argparse._ArgumentGroup, kind: type, name: str, text: str | None = None
) -> None:
    shown = shown_options(kind)[name]
    text = (text or shown.text).replace("%", "%%")  # argparse formats it
    # no defaults here: only what was given changes a preset
    action = group.add_argument(flag(kind, name), default=None, help=text, **_syntax(kind, name, shown))
    if not shown.everyday:
        parser.rare.append(action)
    if isinstance(words := _choices(name, shown), Mapping):
        parser.words[flag(kind, name)] = words


def _choices(name: str, shown: Shown) -> Sequence[str] | Mapping[str, str]:
    return _BY_NAME.get(name, shown.choices)


def _syntax(kind: type, name: str, shown: Shown) -> dict[str, Any]:
    """What argparse needs to know about the value."""
    if choices := _choices(name, shown):
        return {"choices": list(choices), "metavar": "NAME" if len(choices) > 3 else None}
    plain = _plain_type(kind, name)
    if plain is bool or name in NESTED:
        return {"action": argparse.BooleanOptionalAction}
    parse = plain if shown.parse is None else _parser_of(shown.parse)
    maybe = {"nargs": "?", "const": _WITHOUT_VALUE[name]} if name in _WITHOUT_VALUE else {}
    return {"type": parse, "metavar": shown.metavar, **maybe}


def _plain_type(kind: type, name: str) -> Any:
    """The type of an option, without ``None``."""
    hint = get_type_hints(kind)[name]
    return next(one for one in get_args(hint) or (hint,) if one is not NoneType)


def _parser_of(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same for argparse, which tells what is wrong in its own way."""

    def read(text: str) -> Any:
        try:
            return parse(text)
        except OptionError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


# ---------------------------------------------------------------------- flags to options


def solve_options(arguments: argparse.Namespace, base: SolveOptions) -> SolveOptions:
    """Options with those changed that were given."""
    plain = {name: value for name, value in given(arguments, SolveOptions).items() if name not in NESTED}
    return replace(
        base,
        **plain,
        robust=_robust(arguments, base.robust),
        optimiser=_optimiser(arguments, base.optimiser),
        sampler=_sampler(arguments, base.sampler),
    )


def given(arguments: argparse.Namespace, *kinds: type) -> dict[str, Any]:
    """The options of classes that were given, by their names there."""
    values = {name: getattr(arguments, _dest(kind, name), None) for kind in kinds for name in shown_options(kind)}
    return {name: value for name, value in values.items() if value is not None}


def _flags(kind: type, names: Iterable[str]) -> str:
    return ", ".join(flag(kind, name) for name in names)


def _robust(arguments: argparse.Namespace, base: Robust | None) -> Robust | None:
    own, asked = given(arguments, Robust), getattr(arguments, "robust", None)
    if asked is False or (asked is None and base is None):
        if own:
            raise OptionError(f"{_flags(Robust, own)}: only with --robust")
        return None
    return replace(base or Robust(), **own)


_ALIKE = {"batch", "coordinates", "mass"}  # options that TG-MCMC has as a sampler and as an optimiser


def _sampler(arguments: argparse.Namespace, base: SamplerOptions) -> SamplerOptions:
    """The sampler asked for; without a name that of the base, or geodesic if one of its options is given."""
    own, moves = given(arguments, SamplerOptions, Langevin), given(arguments, Langevin)
    descends = getattr(arguments, "optimiser", None) in ("tg-mcmc", "both")
    if descends and set(moves) <= _ALIKE and arguments.sampler != "geodesic":  # they are the optimiser's alone
        own, moves = given(arguments, SamplerOptions), {}
    name = arguments.sampler or ("geodesic" if moves else base.name)
    if moves and name != "geodesic":
        raise OptionError(f"{_flags(Langevin, moves)}: for the sampler geodesic only, not for {name}")
    return replace(base, **own) if name == base.name else sampler_named(name, **own)


def _optimiser(arguments: argparse.Namespace, base: Optimiser) -> Optimiser:
    """The optimiser asked for, or that of the base.

    TG-MCMC moves in the coordinates, with the masses and the minibatches of the draws. Its step and friction suit a
    descent and are its own, unless the base gives a friction, as the paper does for both.
    """
    names = [name for name in shown_options(TgMcmc) if name not in shown_options(Langevin)]
    own = {name: value for name, value in given(arguments, TgMcmc).items() if name in names}
    name = getattr(arguments, "optimiser", None)
    found = base if name is None else optimiser_named(name)
    if isinstance(found, Newton):
        if own:
            raise OptionError(f"{_flags(TgMcmc, own)}: only with --optimiser tg-mcmc or both")
        return found
    if isinstance(base, TgMcmc):
        found = replace(base, then_newton=found.then_newton)
    alike = _ALIKE | ({"step", "friction"} if found.friction is not None else set())
    shared = {name: value for name, value in given(arguments, Langevin).items() if name in alike}
    return replace(found, **own, **shared)
