"""``tempose completion``: scripts for bash, zsh and fish, made from the parser."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tempose.cli.commands import Commands, add_command

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True)
class Flag:
    """An option as a shell completes it: its names, its help, the words it takes, and whether it takes any."""

    names: tuple[str, ...]
    about: str
    words: tuple[str, ...]
    takes: bool


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose completion``."""
    parser = add_command(
        commands,
        "completion",
        summary,
        run,
        """
        source <(tempose completion bash)
        tempose completion zsh > ~/.zfunc/_tempose
        tempose completion fish > ~/.config/fish/completions/tempose.fish
        """,
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"one of {', '.join(SHELLS)}")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    from tempose.cli.parser import build_parser

    made = {"bash": bash, "zsh": zsh, "fish": fish}[arguments.shell](flags_of(build_parser()))
    if arguments.json:
        from tempose.cli import console

        console.emit(arguments, {"shell": arguments.shell, "script": made})
    elif not arguments.quiet:
        print(made, end="")
    return 0


def flags_of(parser: argparse.ArgumentParser) -> dict[str, tuple[str, list[Flag]]]:
    """By command: its summary and its options, arguments with a choice of words among them (without names)."""
    commands = next(one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    about = {one.dest: one.help or "" for one in commands._choices_actions}
    found = {}
    for name, own in commands.choices.items():
        shown = [one for one in own._actions if one.help != argparse.SUPPRESS]
        flags = [
            Flag(
                tuple(one.option_strings),
                " ".join((one.help or "").replace("%%", "%").split()),
                tuple(map(str, one.choices or ())),
                one.nargs != 0,
            )
            for one in shown
            if one.option_strings or one.choices
        ]
        found[name] = (about[name].replace("%%", "%"), flags)
    return found


def bash(commands: dict[str, tuple[str, list[Flag]]]) -> str:
    """For bash: words of the command, of its options, of what an option takes; else files."""
    lines = [
        "# tempose: completion for bash",
        "_tempose() {",
        "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= i",
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        "        [[ ${COMP_WORDS[i]} != -* ]] && { command=${COMP_WORDS[i]}; break; }",
        "    done",
        "    COMPREPLY=()",
        '    case "$command/$before" in',
    ]
    for name, (_, flags) in commands.items():
        for flag in flags:
            if flag.takes and flag.words and flag.names:
                at = "|".join(f"{name}/{one}" for one in flag.names)
                lines.append(f'        {at}) COMPREPLY=($(compgen -W "{" ".join(flag.words)}" -- "$word")); return ;;')
    taking = [
        f"{name}/{one}"
        for name, (_, flags) in commands.items()
        for f in flags
        if f.takes and not f.words
        for one in f.names
    ]
    lines += [f"        {'|'.join(taking)}) return ;;", "    esac", '    case "$command" in']
    lines.append(f'        "") COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$word")) ;;')
    for name, (_, flags) in commands.items():
        options = " ".join(one for flag in flags for one in flag.names)
        words = " ".join(word for flag in flags if not flag.names for word in flag.words)
        lines.append(f'        {name}) if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "{options}" -- "$word"))')
        lines.append(
            f'            else COMPREPLY=($(compgen -W "{words}" -- "$word")); fi ;;' if words else "            fi ;;"
        )
    return "\n".join([*lines, "    esac", "}", "complete -o default -F _tempose tempose", ""])


def zsh(commands: dict[str, tuple[str, list[Flag]]]) -> str:
    """For zsh: a function of ``_arguments`` for each command."""
    lines = [
        "#compdef tempose",
        "# tempose: completion for zsh",
        "_tempose() {",
        "    local -a commands",
        "    commands=(",
    ]
    lines += [f"        {_quoted(f'{name}:{about}')}" for name, (about, _) in commands.items()]
    lines += [
        "    )",
        "    if (( CURRENT == 2 )); then _describe -t commands command commands; return; fi",
        "    case $words[2] in",
    ]
    for name, (_, flags) in commands.items():
        lines.append(f"        {name}) _arguments \\")
        place = 2
        for flag in flags:
            values = f"({' '.join(flag.words)})" if flag.words else "_files"
            if not flag.names:
                lines.append(f"            {_quoted(f'{place}:word:{values}')} \\")
                place += 1
            for one in flag.names:
                about = re.sub(r"([\[\]:])", r"\\\1", flag.about)
                takes = f":value:{values}" if flag.takes else ""
                lines.append(f"            {_quoted(f'{one}[{about}]{takes}')} \\")
        lines.append("            '*:file:_files' ;;")
    return "\n".join(
        [
            *lines,
            "    esac",
            "}",
            'if [[ $funcstack[1] == _tempose ]]; then _tempose "$@"; else compdef _tempose tempose; fi',
            "",
        ]
    )


def fish(commands: dict[str, tuple[str, list[Flag]]]) -> str:
    """For fish: one ``complete`` line for each option."""
    return "\n".join(["# tempose: completion for fish", *_fish_lines(commands), ""])


def _fish_lines(commands: dict[str, tuple[str, list[Flag]]]) -> Iterator[str]:
    for name, (about, flags) in commands.items():
        yield f"complete -c tempose -n __fish_use_subcommand -f -a {name} -d {_quoted(about)}"
        for flag in flags:
            words = f" -x -a {_quoted(' '.join(flag.words))}" if flag.words else " -r" if flag.takes else ""
            if not flag.names:
                yield f"complete -c tempose -n '__fish_seen_subcommand_from {name}' -a {_quoted(' '.join(flag.words))}"
                continue
            names = "".join(f" -l {one[2:]}" if one.startswith("--") else f" -s {one[1:]}" for one in flag.names)
            yield f"complete -c tempose -n '__fish_seen_subcommand_from {name}'{names}{words} -d {_quoted(flag.about)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
