"""Of the pairs that COLMAP verifies, how many are chosen by similarity: photographs of several scenes in one folder.

    python benchmarks/pairs.py epfl/castle-P30/images_half epfl/fountain-P11/images_half …

Pairs within each folder are matched, all of them; those across folders are taken to share nothing.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path

import numpy as np
import pycolmap

from tempose.sfm.pairing import NEIGHBOURS
from tempose.sfm.photographs import SUFFIXES
from tempose.sfm.retrieval import most_similar, similarity

FEWEST_INLIERS = 15


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--features", type=int, default=4000)
    parser.add_argument("--image-size", type=int, default=1000)
    arguments = parser.parse_args()
    pycolmap.logging.minloglevel = 3
    with tempfile.TemporaryDirectory() as home:
        compare(Path(home), arguments)


def compare(home: Path, arguments: argparse.Namespace) -> None:
    """Match all pairs within folders, choose pairs of all photographs, and compare."""
    images, database = home / "images", home / "features.db"
    images.mkdir()
    groups = []
    for k, folder in enumerate(arguments.folders):
        files = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
        groups.append([f"{k}_{path.name}" for path in files])
        for name, path in zip(groups[-1], files, strict=True):
            (images / name).symlink_to(path.resolve())
    settings = pycolmap.FeatureExtractionOptions()
    settings.max_image_size, settings.sift.max_num_features = arguments.image_size, arguments.features
    pycolmap.extract_features(database, images, extraction_options=settings, device=pycolmap.Device.cpu)
    listed = pycolmap.ImportedPairingOptions()
    listed.match_list_path = home / "pairs.txt"
    lines = [f"{a} {b}\n" for names in groups for a, b in itertools.combinations(names, 2)]
    Path(listed.match_list_path).write_text("".join(lines))
    pycolmap.match_image_pairs(database, pairing_options=listed, device=pycolmap.Device.cpu)
    with pycolmap.Database.open(database) as db:
        numbers = [image.image_id for image in sorted(db.read_all_images(), key=lambda image: image.name)]
        inliers = {
            (i, j): len(db.read_two_view_geometry(numbers[i], numbers[j]).inlier_matches)
            for i, j in itertools.combinations(range(len(numbers)), 2)
            if db.exists_two_view_geometry(numbers[i], numbers[j])
        }
        alike = similarity(lambda k: db.read_descriptors(numbers[k]).data, len(numbers))
    verified = {pair: count for pair, count in inliers.items() if count >= FEWEST_INLIERS}
    count = np.array(list(verified.values()))
    print(f"{len(numbers)} photographs, {len(numbers) * (len(numbers) - 1) // 2} pairs, {len(verified)} verified")
    print(f"{'neighbours':>10} {'pairs':>6} {'recall':>7} {'of ≥ 50 inliers':>16} {'most inliers lost':>18}")
    for neighbours in sorted({5, 10, 20, NEIGHBOURS}):
        chosen = most_similar(alike, neighbours)
        hit = np.array([pair in chosen for pair in verified])
        lost = int(count[~hit].max(initial=0))
        print(f"{neighbours:>10} {len(chosen):>6} {hit.mean():>7.1%} {hit[count >= 50].mean():>16.1%} {lost:>18}")


if __name__ == "__main__":
    main()
