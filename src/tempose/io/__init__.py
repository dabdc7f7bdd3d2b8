"""Pose graphs and poses from and to files.

| format         | file                        | graph | poses | precisions                        |
|----------------|-----------------------------|-------|-------|-----------------------------------|
| g2o            | ``.g2o``                    | yes   | yes   | 6×6 information, 3×3 in the plane |
| csv            | ``.csv``                    | yes   | yes   | anything a graph can hold         |
| toro           | ``.toro``, ``.graph``       | yes   | yes   | 6×6 information, 3×3 in the plane |
| pyfg           | ``.pyfg``                   | yes   | yes   | 6×6 covariance, 3×3 in the plane  |
| open3d         | ``.json``                   | yes   | yes   | 6×6 information                   |
| 3dmatch        | ``.log``, a scene's folder  | yes   | yes   | none: ``sigma_rot_deg/trans``     |
| tum            | ``.tum``                    | no    | yes   | –                                 |
| kitti          | ``.kitti``                  | no    | yes   | –                                 |
| euroc          | ``.euroc``, ``data.csv``    | no    | yes   | –                                 |
| rosbag         | ``.bag``, ``.mcap``, …      | no    | read  | 6×6 covariance of poses           |
| epfl-rotations | ``SCENE_Edges.txt`` …       | yes   | yes   | none: ``sigma_rot_deg``           |
| 1dsfm          | a folder with ``EGs.txt``   | read  | read  | none: ``sigma_rot_deg``           |

Text files may be packed (``.g2o.gz``). The format follows from the ending, else from what is in the folder, else from the content
(``.txt``). Columns and
equations of each are in the module of its name. What a reader had to decide is in ``PoseGraph.notices`` and
``PoseGraph.origin``; what it cannot read is a :class:`~tempose.errors.TemposeError` with file and line. Files are written
whole or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempose._support.lazy import lazy_names

if TYPE_CHECKING:
    from tempose.io.covariances import CovarianceTable as CovarianceTable
    from tempose.io.covariances import read_covariances as read_covariances
    from tempose.io.covariances import write_covariances as write_covariances
    from tempose.io.files import FORMATS as FORMATS
    from tempose.io.files import read_graph as read_graph
    from tempose.io.files import read_poses as read_poses
    from tempose.io.files import write_graph as write_graph
    from tempose.io.files import write_poses as write_poses
    from tempose.io.options import ReadOptions as ReadOptions
    from tempose.io.rosbag import RosPoses as RosPoses
    from tempose.io.rosbag import read_bag as read_bag
    from tempose.io.rosbag import write_bag as write_bag

_WHERE = {
    "CovarianceTable": "covariances",
    "FORMATS": "files",
    "ReadOptions": "options",
    "RosPoses": "rosbag",
    "read_bag": "rosbag",
    "read_covariances": "covariances",
    "read_graph": "files",
    "read_poses": "files",
    "write_bag": "rosbag",
    "write_covariances": "covariances",
    "write_graph": "files",
    "write_poses": "files",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _WHERE)
