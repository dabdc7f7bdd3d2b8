"""Informations of many edges: the short ways give what the long ones give."""

from __future__ import annotations

import numpy as np
import pytest

from tempose.model import precision as precisions
from tempose.model.graph import _not_psd


def informations(rng: np.random.Generator, m: int) -> np.ndarray:
    """Joint informations of any size; some singular, some slightly indefinite."""
    root = rng.standard_normal((m, 6, 6))
    root[::5, :, rng.integers(6)] = 0.0
    out = root @ np.swapaxes(root, 1, 2)
    out[::7] -= 10.0 ** rng.uniform(-14.0, -4.0, (len(out[::7]), 1, 1)) * np.eye(6)
    size = 10.0 ** rng.uniform(-30.0, 30.0, (m, 1, 1))
    return 0.5 * size * (out + np.swapaxes(out, 1, 2))


@pytest.mark.parametrize("m", [0, 1, 999, 3500])
def test_the_smallest_eigenvalue_up_to_what_is_clear(m) -> None:
    blocks = informations(np.random.default_rng(m), m)
    true = np.linalg.eigvalsh(precisions._scaled(blocks)[0])[:, 0] if m else np.empty(0)
    found = precisions.lowest(blocks)
    np.testing.assert_allclose(found, np.minimum(true, precisions.CLEAR), rtol=0, atol=2e-14)
    assert m < 1000 or 0.1 < np.mean(found < precisions.CLEAR) < 0.9


def test_one_number_each_is_what_the_long_ways_give_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    wxyz = rng.standard_normal((25_000, 4))
    for dimension in (2, 3):
        blocks = np.zeros((len(wxyz), 6, 6))
        for axes in (precisions.ROTATION[dimension], precisions.TRANSLATION[dimension]):
            blocks[:, axes, axes] = 10.0 ** rng.uniform(-90.0, 90.0, (len(wxyz), 1))
        plain = precisions.plain_noise(blocks, dimension)
        assert plain is not None
        for other in (
            precisions.noise(blocks, wxyz, dimension),
            precisions.marginal_numbers(blocks, dimension),
            precisions.block_numbers(blocks, dimension),
        ):
            assert all(np.array_equal(a, b) for a, b in zip(plain[:2], other[:2], strict=True))
            assert other.coupling is None
        first, second = precisions.TRANSLATION[dimension][:2]
        for k in (0, len(wxyz) - 1):
            for entry, value in (
                ((first, first), 0.0),
                ((first, first), np.nextafter(blocks[k, first, first], 0.0)),
                ((first, second), 1e-300),
                ((second, 2), 1e-300),
                ((first, first), -blocks[k, first, first]),
            ):
                changed = blocks.copy()
                changed[k][entry] = value
                assert precisions.plain_noise(changed, dimension) is None


def test_precisions_that_are_none_are_found_among_many() -> None:
    rng = np.random.default_rng(1)
    root = rng.standard_normal((2500, 3, 3)) * 10.0 ** rng.uniform(-40.0, 40.0, (2500, 1, 1))
    root[::4, :, 0] = 0.0
    good = root @ np.swapaxes(root, 1, 2)
    good[7] = 0.0
    assert not np.any(_not_psd(good))
    bad = good.copy()
    bad[11] -= 1e-8 * np.abs(bad[11]).max() * np.eye(3)
    bad[12] -= 1e-8 * np.abs(bad[12]).max() * np.eye(3)  # not singular before: still positive definite
    bad[1500, 0, 1] *= 1.0 + 1e-6
    bad[2000, 1, 1] = np.nan
    bad[2400] *= -1.0
    lowest = np.linalg.eigvalsh(np.nan_to_num(bad))[:, 0] / np.abs(np.nan_to_num(bad)).max(axis=(1, 2), initial=1e-300)
    expected = lowest < -1e-9
    expected[[1500, 2000]] = True
    assert np.array_equal(_not_psd(bad), expected)
    assert expected.sum() >= 3
