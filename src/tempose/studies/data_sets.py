"""The public data sets that experiments need: what they are, who published them, their licence, and the files that must be there.

None of them is part of the project. Imports nothing, so that ``tempose data`` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class DataSet(NamedTuple):
    """A data set in words.

    Attributes
    ----------
    what
        In a line.
    source
        Who published it, and where to look for it.
    licence
        As far as its publishers say.
    files
        Patterns below its folder, each of which must match at least one file.
    """

    what: str
    source: str
    licence: str
    files: tuple[str, ...]


_EPFL = ("fountain-P11", "Herz-Jesus-P8", "Herz-Jesus-P25", "castle-P19", "castle-P30", "entry-P10")
_ROTATIONS = ("CastleP19", "CastleP30", "EntryP10", "FountainP11", "HerzJesuP25", "HerzJesuP8")
_SCANS = (
    "7-scenes-redkitchen-evaluation", "iclnuim-livingroom1-evaluation", "iclnuim-office1-evaluation",
    "sun3d-home_at-home_at_scan1_2013_jan_1-evaluation", "sun3d-hotel_uc-scan3-evaluation",
    "sun3d-hotel_umd-maryland_hotel1-evaluation", "sun3d-mit_76_studyroom-76-1studyroom2-evaluation",
)  # fmt: skip

DATA_SETS: dict[str, DataSet] = {
    "g2o": DataSet(
        "pose graphs in space: tinyGrid3D, smallGrid3D, sphere2500 with its noise-free edges, torus3D, parking-garage",
        "data folder of SE-Sync (github.com/david-m-rosen/SE-Sync); sphere2500_groundtruth.txt: examples of GTSAM "
        "(github.com/borglab/gtsam)",
        "LGPL-3 (SE-Sync), BSD (GTSAM)",
        ("sphere2500.g2o", "sphere2500_groundtruth.txt", "torus3D.g2o", "smallGrid3D.g2o", "tinyGrid3D.g2o", "parking-garage.g2o"),
    ),
    "g2o2d": DataSet(
        "planar pose graphs: intel, MIT, kitti_00 with its truth, city10000, manhattanOlson3500 with its noise-free edges",
        "data folder of SE-Sync (github.com/david-m-rosen/SE-Sync), OpenSLAM (openslam-org.github.io); the truth of kitti_00: "
        "KITTI odometry benchmark (cvlibs.net/datasets/kitti), as in the examples of evo (github.com/MichaelGrupp/evo)",
        "LGPL-3 (SE-Sync); KITTI: CC BY-NC-SA 3.0",
        ("intel.g2o", "MIT.g2o", "kitti_00.g2o", "kitti_00_truth.kitti", "city10000.g2o", "manhattanOlson3500.g2o",
         "manhattanOlson3500_groundtruth.txt"),
    ),
    "epfl": DataSet(
        "photographs of six scenes at half size (images_half, 1536×1024, with K.txt), and their true cameras",
        "Strecha et al., 'On benchmarking camera calibration and multi-view stereo', CVPR 2008 (EPFL, CVLAB)",
        "research use",
        tuple(f"{scene}/{part}" for scene in _EPFL for part in ("gt_dense_cameras/*.camera", "images_half/*.jpg")),
    ),
    "epfl_rotations": DataSet(
        "measured and true rotations of the six scenes",
        "Birdal, Arbel, Şimşekli & Guibas, 'Synchronizing probability measures on rotations via optimal transport', CVPR 2020",
        "BSD",
        tuple(f"{scene}_{part}.txt" for scene in _ROTATIONS for part in ("Edges", "Qrel", "Qabs")),
    ),
    "threedmatch": DataSet(
        "registrations of seven scans of rooms: 3dmatch.log measured, gt.log and gt.info true",
        "Zeng et al., '3DMatch', CVPR 2017: geometric registration benchmark (3dmatch.cs.princeton.edu)",
        "BSD-2",
        tuple(f"{scene}/{file}" for scene in _SCANS for file in ("3dmatch.log", "gt.log", "gt.info")),
    ),
    "madrid": DataSet(
        "epipolar geometries of 394 photographs of Madrid Metropolis, and true poses of 176",
        "Wilson & Snavely, 'Robust global translations with 1DSfM', ECCV 2014 (cs.cornell.edu/projects/1dsfm); truth: Kasten et "
        "al., ICCV 2019",
        "research use",
        ("EGs.txt", "list.txt", "kasten_gt_176.mat"),
    ),
    "photos": DataSet(
        "photographs as people have them: reichstag by ten cameras with poses, kermit with EXIF, drone (1600 px) with GPS",
        "reichstag: image-matching benchmark of the phototourism challenge, as in GTSfM (github.com/borglab/gtsfm); kermit: "
        "Bundler (github.com/snavely/bundler_sfm); drone: 18 aerial photographs, BSD-2",
        "BSD (GTSfM), GPL (Bundler), BSD-2",
        ("reichstag/images/*.jpg", "reichstag/calibration/*.h5", "kermit/*.jpg", "drone/*.jpg"),
    ),
    "dino": DataSet(
        "the dinosaur on a turntable: 36 cameras and tracks of points",
        "Visual Geometry Group, Oxford: multi-view data (robots.ox.ac.uk/~vgg/data/mview)",
        "research use",
        ("dino_Ps.mat", "dino4983.mat", "dino319.mat"),
    ),
}  # fmt: skip
"""By the name of the folder."""

NEEDED: dict[str, tuple[str, ...]] = {
    "lambda": ("epfl_rotations",),
    "epfl-rotations": ("epfl_rotations",),
    "epfl": ("epfl",),
    "ba-gain": ("epfl",),
    "epfl-coverage": ("epfl",),
    "epfl-bundle": ("epfl",),
    "epfl-photographs": ("epfl",),
    "warped-photographs": ("epfl",),
    "other-photographs": ("photos",),
    "point-uncertainty": ("epfl", "dino"),
    "threedmatch": ("threedmatch",),
    "scenes": ("threedmatch",),
    "scenes-left-out": ("threedmatch",),
    "madrid": ("madrid",),
    "covariance-sphere": ("g2o",),
    "planar-truth": ("g2o2d",),
    "kitti-loops": ("g2o2d",),
}
"""By experiment: the data sets it needs; ``lambda`` leaves its real data out where they are not there."""


def experiments_of(name: str) -> list[str]:
    """The experiments that need a data set."""
    return [experiment for experiment, sets in NEEDED.items() if name in sets]


def missing(home: Path, name: str) -> list[str]:
    """Patterns of a data set that match no file below a folder of data sets."""
    folder = home / name
    return [pattern for pattern in DATA_SETS[name].files if not any(folder.glob(pattern))]
