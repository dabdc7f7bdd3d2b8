"""What the parsers of all commands share: their shape, their help, common options, and old names of options."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"
"""What a command adds its parser to."""

PRINTING = "printing"


class Parser(argparse.ArgumentParser):
    """A parser that tells a mistake in one line, with the word that was probably meant; ``1e3`` is a whole number."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **{**more, "exit_on_error": False})
        self.register("type", int, whole_number)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As usual, but refuses what it does not know: it alone has the options to compare it with."""
        try:
            found, unknown = super().parse_known_args(args, namespace)
        except argparse.ArgumentError as error:
            self.error(f"{error.argument_name}: {error.message}" if error.argument_name else error.message)
        if unknown:
            first = unknown[0]
            named = first.partition("=")[0]
            what = f"there is no option {named}" if first.startswith("-") else f"{first!r} is one argument too many"
            self.error(what + meant(named, self._option_string_actions))
        if isinstance(self, CommandParser):
            found.flags = [name for name in self._option_string_actions if name.startswith("--")]
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is not among the choices, with the one that is most like it, or all."""
        if action.choices is not None and value not in action.choices:
            if value in ("help", "version"):
                raise argparse.ArgumentError(action, f"there is no {value!r}; did you mean --{value}?")
            known = meant(str(value), map(str, action.choices)) or f"; there are {', '.join(map(str, action.choices))}"
            raise argparse.ArgumentError(action, f"there is no {value!r}{known}")

    def error(self, message: str) -> NoReturn:
        """One line, and where the help is."""
        self.exit(2, f"{self.prog}: {message} (help: {self.prog} --help)\n")


def whole_number(text: str) -> int:
    """``1000``, also written ``1e3``."""
    try:
        value = float(text)
        if value == int(value):
            return int(text) if text.strip().lstrip("+-").isdecimal() else int(value)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"expected a whole number, not {text!r}")


def with_flags(message: str, flags: Iterable[str]) -> str:
    """The library's message on the command line: ``--sigma-rot-deg`` for ``sigma_rot_deg``, ``--draws 0`` for ``draws=0``.

    Words without an underscore are left alone, unless a value follows: they may be words and nothing else.
    """
    import re

    for flag in flags:
        name = flag.removeprefix("--").replace("-", "_")
        if len(name) > 1:
            message = re.sub(rf"(?<![\w-]){name}=(?=\S)", f"{flag} ", message)
            if "_" in name:
                message = re.sub(rf"(?<![\w-]){name}\b(?!=)", flag, message)
    return message


def meant(given: str, known: Iterable[str]) -> str:
    """``; did you mean --draws?``, or nothing if no known word is like the given one."""
    from difflib import get_close_matches

    return "".join(f"; did you mean {word}?" for word in get_close_matches(given, list(known), n=1))


class CommandParser(Parser):
    """A parser whose ``--help`` leaves out the options called rare; ``--help-all`` shows them."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.rare: list[argparse.Action] = []
        self.words: dict[str, Mapping[str, str]] = {}  # by flag: what it takes, with the meaning of each
        self.shows_all = False

    def format_help(self) -> str:
        """The help; rare options and the meanings of words only if all is asked for."""
        self._action_groups.sort(key=lambda group: group.title == PRINTING)  # last: it is the same everywhere
        if self.shows_all:
            return super().format_help() + "".join(_meanings(*item) for item in self.words.items())
        texts = [action.help for action in self.rare]
        for action in self.rare:
            action.help = argparse.SUPPRESS
        try:
            return super().format_help() + f"\nAll options: {self.prog} --help-all\n"
        finally:
            for action, text in zip(self.rare, texts, strict=True):
                action.help = text


def _meanings(flag: str, words: Mapping[str, str]) -> str:
    from tempose._support.tables import text_table

    return f"\n{flag}:\n{text_table(list(words.items()), left=(0, 1), indent='  ')}\n"


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        assert isinstance(parser, CommandParser)
        parser.shows_all = True
        parser.print_help()
        parser.exit()


def sentence(summary: str) -> str:
    """A summary with a capital letter and a full stop."""
    return f"{summary[0].upper()}{summary[1:]}."


def add_command(
    commands: Commands,
    name: str,
    summary: str,
    run: Callable[[argparse.Namespace], int],
    example: str,
    usage: str | None = None,
    has_rare: bool = False,
) -> CommandParser:
    """Add a command with its summary, its examples, and what all commands have: ``--json`` and ``--quiet``.

    Parameters
    ----------
    commands
        Of the parser above it.
    name, summary
        Its name, and what it does, in a line.
    run
        What does it.
    example
        Lines of a shell.
    usage
        Its arguments in a line, if they are too many for argparse's own.
    has_rare
        Whether it has options that only ``--help-all`` shows.
    """
    parser = commands.add_parser(
        name,
        help=summary.replace("%", "%%"),  # argparse formats it
        usage=None if usage is None else f"%(prog)s {usage}",
        description=sentence(summary),
        epilog="example:\n" + textwrap.indent(textwrap.dedent(example).strip(), "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    parser.shows_all = not has_rare
    if has_rare:
        parser.add_argument("--help-all", action=_HelpAll, nargs=0, help="show all options, rare ones too")
    output = parser.add_argument_group(PRINTING)
    output.add_argument("--json", action="store_true", help="print the result as JSON on standard output")
    output.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return parser


def add_graph(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    """The graph that a command works on."""
    parser.add_argument(
        "graph",
        metavar="GRAPH",
        nargs=nargs,
        help="graph: a file (g2o, csv, Open3D, TORO, pyfg, 3DMatch log, EPFL rotations) or a folder (1DSfM, 3DMatch, a solve)",
    )


def add_alignment(parser: argparse.ArgumentParser) -> None:
    """How poses are aligned with the truth."""
    parser.add_argument(
        "--alignment",
        default="se3",
        choices=["se3", "sim3", "positions-se3", "positions-sim3", "none"],
        help="se3 (default) and sim3 take the rotation from the orientations; positions-* from the positions alone; none "
        "compares poses as they are, in the world that both share",
    )


def add_open(parser: argparse.ArgumentParser) -> None:
    """Whether to show the page at the end."""
    parser.add_argument("--open", action="store_true", help="open the page in the browser when it is written")


class _Renamed(argparse.Action):
    """An old name: does what the new one does, and leaves a hint in the namespace."""

    def __init__(self, option_strings: Sequence[str], new: argparse.Action, **more: Any) -> None:
        super().__init__(option_strings, **more)
        self.new = new

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, old: str | None = None
    ) -> None:
        name = self.new.option_strings[0]
        hint = f"{old} is now {name}; the old name is accepted until the next version"
        namespace.hints = [*getattr(namespace, "hints", ()), hint]
        self.new(parser, namespace, values, name)


def accept_old_names(parser: argparse.ArgumentParser, new_names: Mapping[str, str]) -> None:
    """Let options be called by their old names, too, with a hint and out of the help."""
    for old, new in new_names.items():
        action = parser._option_string_actions[new]
        syntax: dict[str, Any] = {"dest": action.dest, "nargs": action.nargs, "type": action.type}
        parser.add_argument(
            old, action=_Renamed, new=action, default=argparse.SUPPRESS, help=argparse.SUPPRESS, **syntax
        )


def add_workers(parser: argparse.ArgumentParser, heading: str | None = None) -> None:
    """Where to compute: on cores of this machine, or on a cluster."""
    group = parser if heading is None else parser.add_argument_group(heading)
    group.add_argument("--jobs", type=int, metavar="N", help="processes (default: one per core)")
    add_cluster(group)


def add_cluster(parser: argparse._ActionsContainer, what: str = "compute") -> argparse.Action:
    """A cluster to compute on."""
    return parser.add_argument(
        "--cluster", metavar="ADDRESS", help=f"{what} on the workers of this dask scheduler (tcp://host:8786)"
    )
