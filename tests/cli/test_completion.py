"""Completion: bash itself is asked what it would complete; the other scripts name every option."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tempose.cli import main
from tempose.cli.completion import SHELLS, flags_of
from tempose.cli.parser import COMMANDS, build_parser


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    import contextlib
    import io

    home, found = tmp_path_factory.mktemp("scripts"), {}
    for shell in SHELLS:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert main(["completion", shell]) == 0
        found[shell] = home / shell
        found[shell].write_text(out.getvalue(), encoding="utf-8")
    return found


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of some words."""
    line = " ".join(f"'{word}'" for word in words)
    ask = f'source "$1"; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _tempose; printf "%s\\n" "${{COMPREPLY[@]}}"'
    out = subprocess.run(["bash", "-c", ask, "bash", str(script)], capture_output=True, text=True, check=True)
    assert out.stderr == ""
    return out.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes(scripts: dict[str, Path]) -> None:
    script = scripts["bash"]
    assert set(COMMANDS) <= set(completed(script, "tempose", ""))
    assert completed(script, "tempose", "sol") == ["solve"]
    assert "--robust" in completed(script, "tempose", "solve", "--ro")
    assert completed(script, "tempose", "solve", "g.g2o", "--noise", "a") == ["auto"]
    assert completed(script, "tempose", "solve", "g.g2o", "--scale", "") == ["never", "always", "if-test-fails"]
    assert completed(script, "tempose", "completion", "z") == ["zsh"]
    # nothing is made up: where files are meant, bash's own completion goes on
    assert completed(script, "tempose", "solve", "") == []
    assert completed(script, "tempose", "solve", "-o", "") == []
    assert completed(script, "tempose", "solve", "--nonsense") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_every_option_is_in_every_script(scripts: dict[str, Path], shell: str) -> None:
    text = scripts[shell].read_text(encoding="utf-8")
    for name, (_, flags) in flags_of(build_parser()).items():
        assert name in text
        for flag in flags:
            for one in flag.names:
                as_fish = f"-l {one[2:]}" if one.startswith("--") else f"-s {one[1:]}"
                assert (as_fish if shell == "fish" else one) in text, (name, one)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_shell_can_read_it(scripts: dict[str, Path], shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    subprocess.run([shell, "--no-execute" if shell == "fish" else "-n", str(scripts[shell])], check=True)


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "tcsh"])
    assert "there is no 'tcsh'" in capsys.readouterr().err
