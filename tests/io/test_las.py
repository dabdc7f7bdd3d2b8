"""LAS and LAZ, read back by laspy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempose.errors import FileError, GraphError
from tempose.io.las import write_las

laspy: Any = pytest.importorskip("laspy")


def cloud(count: int = 50, far: float = 0.0) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    xyz = rng.uniform(-2.0, 2.0, (count, 3)) + far
    sigmas = rng.uniform(1e-4, 1e-2, (count, 3)).astype("f4")
    return {
        **{name: xyz[:, k] for k, name in enumerate("xyz")},
        "red": np.arange(count, dtype="u1"),
        "green": np.zeros(count, "u1"),
        "blue": np.full(count, 255, "u1"),
        **{f"sigma_{name}": sigmas[:, k] for k, name in enumerate("xyz")},
        "views": np.arange(count),
        "status": np.ones(count, "u1"),
    }


@pytest.mark.parametrize("ending", ["las", "laz"])
@pytest.mark.parametrize("far", [0.0, 4e6])  # as UTM northings are
def test_what_is_written_is_read_by_laspy(tmp_path: Path, ending: str, far: float) -> None:
    if ending == "laz":
        pytest.importorskip("lazrs")
    columns, file = cloud(far=far), tmp_path / f"cloud.{ending}"
    write_las(file, columns)
    back = laspy.read(file)
    assert str(back.header.version) == "1.4" and len(back) == 50
    for k, name in enumerate("xyz"):
        scale = back.header.scales[k]
        assert scale <= 0.01 * columns["sigma_x"].min()
        np.testing.assert_allclose(getattr(back, name), columns[name], atol=0.51 * scale + 1e-9 * abs(far))
        np.testing.assert_array_equal(back[f"sigma_{name}"], columns[f"sigma_{name}"])
    np.testing.assert_array_equal(back.red // 257, columns["red"])
    np.testing.assert_array_equal(back["views"], columns["views"])


def test_a_large_cloud_is_as_fine_as_32_bits_are(tmp_path: Path) -> None:
    columns = cloud()
    columns["x"][0] = 1e6
    columns["sigma_x"][:] = 1e-6
    write_las(tmp_path / "c.las", columns)
    back = laspy.read(tmp_path / "c.las")
    np.testing.assert_allclose(back.x, columns["x"], atol=back.header.scales[0])


def test_mistakes_are_told(tmp_path: Path) -> None:
    columns = cloud()
    columns["x"][0] = np.nan
    with pytest.raises(FileError, match="without a position"):
        write_las(tmp_path / "c.las", columns)
    with pytest.raises(GraphError, match="x, y and z"):
        write_las(tmp_path / "c.las", {"x": columns["x"]})
