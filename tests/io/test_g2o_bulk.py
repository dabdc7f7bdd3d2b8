"""Large g2o files are read by compiled code: the same graph to the bit, or the same error, as line by line."""

from __future__ import annotations

import gzip
import itertools
import random
import struct
from dataclasses import fields
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from helpers import fuzz_g2o
from tempose._support import parallel
from tempose.errors import TemposeError
from tempose.io import ReadOptions, write_graph
from tempose.io.g2o import bulk, lines, read_graph
from tempose.io.g2o._decimals import LARGEST_POWER, powers_of_five
from tempose.model.poses import Poses
from tempose.simulation import simulate

NEVER = 1 << 60


def decimals(tokens: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Which of some words the compiled reader takes, and what it makes of them."""
    piece = bulk._Table([bulk.Columns("T", 0, 1)]).read("".join(f"T {token}\n" for token in tokens).encode())
    taken, values = np.zeros(len(tokens), dtype=bool), np.zeros(len(tokens))
    if piece.rows:
        taken[piece.rows["T"].line] = True
        values[taken] = piece.rows["T"].values[:, 0]
    return taken, values


def test_decimals_are_those_of_float_to_the_last_bit() -> None:
    rng = random.Random(1)
    tokens = ["0", "-0", "-0.0", ".5", "5.", "+1.5e+3", "1E5", "0.1", "9007199254740993", "9007199254740993.0"]
    for _ in range(4000):
        x = struct.unpack("d", struct.pack("Q", rng.getrandbits(64)))[0]
        half = (Decimal(a := rng.random() * 10.0 ** rng.randint(-20, 20)) + Decimal(float(np.nextafter(a, 9e99)))) / 2
        tokens += [
            repr(x) if abs(x) < 1e99 else "1",
            repr(rng.uniform(-2.0, 2.0)),
            f"{rng.uniform(-1.0, 1.0):.{rng.randint(1, 30)}e}",
            f"{rng.uniform(-1.0, 1.0):.{rng.randint(1, 30)}f}",
            format(half, "f")[: rng.randint(5, 60)],  # near the middle between two doubles
            str(half),  # and exactly there
            f"{rng.getrandbits(rng.randint(1, 70))}{rng.choice(['', '.', f'e{rng.randint(-30, 30)}'])}",
        ]
    taken, values = decimals(tokens)
    true = np.array([float(token) for token in tokens])
    assert np.array_equal(values[taken].view(np.uint64), true[taken].view(np.uint64))  # signs of zeros, too
    assert np.mean(taken) > 0.7  # all but what is exactly in the middle, or fainter than 1e-120
    assert np.all(taken[np.array([len(t) < 20 and abs(float(t)) > 1e-90 for t in tokens])])


def test_what_is_no_decimal_is_left_to_the_careful_reader() -> None:
    words = [
        "nan",
        "inf",
        "1,5",
        "1_0",
        "0x10",
        "1e",
        "e5",
        "-",
        "+",
        ".",
        "--1",
        "1.2.3",
        "٣",
        "1e400",
        "2e100",
        "1#",
        "1 2",
    ]
    assert not np.any(decimals(words)[0])


def test_powers_of_five_have_128_bits() -> None:
    for q, (high, low) in zip(range(-LARGEST_POWER, LARGEST_POWER + 1), powers_of_five().tolist(), strict=True):
        bits = (high << 64) + low
        assert 1 << 127 <= bits < 1 << 128
        exponent = (5**q).bit_length() - 128 if q >= 0 else -(128 + (5**-q - 1).bit_length() - 1)
        true = Decimal(5) ** q
        assert abs(Decimal(bits) * Decimal(2) ** exponent / true - 1) < Decimal(2) ** -85 * 10**0


def outcome(path: Path, options: ReadOptions) -> str | tuple[bytes | str, ...]:
    """All of a graph as bytes, or the error."""
    try:
        graph = read_graph(path, options)
    except TemposeError as error:
        return str(error)
    values = [getattr(graph, f.name) for f in fields(graph)]
    values += [x for poses in values if isinstance(poses, Poses) for x in (poses.ids, poses.wxyz, poses.position)]
    return tuple(x.tobytes() if isinstance(x, np.ndarray) else str(x) for x in values if not isinstance(x, Poses))


def both(data: bytes, path: Path, options: ReadOptions, monkeypatch: pytest.MonkeyPatch, piece: int = 8_000_000):
    path.write_bytes(data)
    out = []
    for size in (NEVER, 0):
        monkeypatch.setattr(lines, "LARGE", size)
        monkeypatch.setattr(bulk, "PIECE", piece)
        out.append(outcome(path, options))
    return out


def test_mutants_have_the_same_graph_or_the_same_error_either_way(tmp_path, monkeypatch) -> None:
    rng = np.random.default_rng(5)
    kinds = [ReadOptions(), ReadOptions(precision="isotropic"), ReadOptions(precision="se-sync")]
    seen = {str: 0, tuple: 0}
    for k in range(600):
        data = fuzz_g2o.mutant(rng) if k >= 3 * len(fuzz_g2o.SEEDS) else fuzz_g2o.SEEDS[k // 3].encode()
        slow, fast = both(data, tmp_path / "a.g2o", kinds[k % 3], monkeypatch, piece=(60, 997, 8_000_000)[k % 7 % 3])
        assert fast == slow, data
        seen[type(slow)] += 1
    assert min(seen.values()) > 50


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.replace(b"\n", b"\r"),
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: b"\xff\xfe" + text,
        lambda text: text.decode().encode("utf-16"),
        lambda text: text[:-1],
        lambda text: text[:-20] + b"\0" + text[-20:],
        lambda text: gzip.compress(text),
        lambda text: gzip.compress(text)[:-30],
        lambda text: text.replace(b"1", b"1 # one", 1),
        lambda text: b"\n\n# nothing\n" + text.replace(b" ", b"\t \t"),
        lambda text: text + b"EDGE_SE3:QUAT 0 1 0 0\n",
        lambda text: text.replace(b".", b","),
        lambda text: text + b"VERTEX_SE3:QUAT 90000 1,5 0 0 0 0 0 1\n",
        lambda text: text + b"FIX 3\nBLAH 1\n",
        lambda text: b"",
    ],
)
def test_files_as_they_come(change, tmp_path, monkeypatch) -> None:
    simulated = simulate(60, shape="trajectory", seed=3)
    write_graph(tmp_path / "true.g2o", simulated.graph, simulated.truth)
    data = change((tmp_path / "true.g2o").read_bytes())
    for piece in (400, 8_000_000):
        slow, fast = both(data, tmp_path / "a.g2o", ReadOptions(), monkeypatch, piece)
        assert fast == slow


def test_positions_far_from_the_origin_keep_all_digits(tmp_path, monkeypatch) -> None:
    rows = [f"VERTEX_SE3:QUAT {k} 691000.1234567891234{k} 5334000.5 520 0 0 0 1\n" for k in range(9)]
    rows += [f"EDGE_SE3:QUAT {k} {k + 1} 1 0 0 0 0 0 1 {fuzz_g2o._INFO3}\n" for k in range(8)]
    rows += ["EDGE_SE3_PRIORXYZ 2 691000.12345678912345 5334000.5 520 4 0 0 4 0 1\n"]
    slow, fast = both("".join(rows).encode(), tmp_path / "a.g2o", ReadOptions(), monkeypatch, piece=300)
    assert fast == slow and not isinstance(fast, str)
    graph = read_graph(tmp_path / "a.g2o")
    assert np.any(graph.world_origin)
    assert graph.initial is not None
    assert graph.initial.position[3, 0] == float(Decimal("691000.12345678912343") - int(graph.world_origin[0]))


def test_the_number_of_threads_changes_neither_graphs_nor_errors(tmp_path, monkeypatch) -> None:
    simulated = simulate(60, shape="trajectory", seed=3)
    write_graph(tmp_path / "true.g2o", simulated.graph, simulated.truth)
    text = (tmp_path / "true.g2o").read_bytes()
    half = text.index(b"\n", len(text) // 2) + 1
    twice = b"EDGE_SE3:QUAT 0 1 0 0\n" + text[half:] + b"EDGE_SE3:QUAT 0 x\n"  # only the first mistake is told
    monkeypatch.setattr(lines, "LARGE", 0)
    monkeypatch.setattr(bulk, "PIECE", 700)
    for data in (text, text[:half] + twice, text[:half] + b"\0\n" + text[half:], gzip.compress(text)):
        (tmp_path / "a.g2o").write_bytes(data)
        found = []
        for threads in (1, 2, 5):
            monkeypatch.setattr(parallel, "cores", lambda threads=threads: threads)
            found.append(outcome(tmp_path / "a.g2o", ReadOptions()))
        assert found[0] == found[1] == found[2]
        assert isinstance(found[0], str) == (data is not text and data[:2] != gzip.compress(b"")[:2])
        if twice in data:
            assert str(found[0]).startswith(f"{tmp_path / 'a.g2o'}:{text[:half].count(10) + 1}:")


def test_text_that_ends_anywhere_is_read_to_its_end(tmp_path, monkeypatch) -> None:
    """The last numbers of a piece are fewer than the eight bytes that are looked at together."""
    for end in ("1", "12", "1.5", "0.12345678", "1e3", "0", "-0", "12345678", "1.23456789012345678"):
        for more in ("", "\n", "\r\n", " \t", "x"):
            text = f"T {end}{more}"
            piece = bulk._Table([bulk.Columns("T", 0, 1)]).read(text.encode())
            assert bool(piece.rows) == (more != "x")
            assert more == "x" or piece.rows["T"].values[0, 0] == float(end)


def test_a_difference_would_be_noticed(tmp_path, monkeypatch) -> None:
    """Negative control: a reader whose last bit is off is another one."""
    kernel = bulk.numbers_of_lines

    def wrong(*given):
        points = kernel(*given)
        given[-2][:, 0] = np.nextafter(given[-2][:, 0], 9.0)
        return points

    slow, same = both(fuzz_g2o.SEEDS[0].encode(), tmp_path / "a.g2o", ReadOptions(), monkeypatch)
    monkeypatch.setattr(bulk, "numbers_of_lines", wrong)
    _, other = both(fuzz_g2o.SEEDS[0].encode(), tmp_path / "a.g2o", ReadOptions(), monkeypatch)
    assert same == slow != other


def test_the_text_is_never_in_memory_as_a_whole(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(bulk, "PIECE", 1000)
    (tmp_path / "a.g2o").write_text("".join(f"LINE {k}\n" for k in range(1000)))
    texts = list(bulk._texts(tmp_path / "a.g2o"))
    assert max(map(len, texts)) < 1020
    assert b"".join(texts) == (tmp_path / "a.g2o").read_bytes()
    assert list(itertools.islice(bulk.text_lines(tmp_path / "a.g2o", np.array([7, 700])).values(), 2)) == [
        "LINE 6",
        "LINE 699",
    ]
