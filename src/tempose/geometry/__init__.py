"""Quaternions, the sphere S³, rigid motions and alignment: batched, pure functions of arrays."""

from tempose.geometry import quaternion, se3, sphere
from tempose.geometry.alignment import ALIGNMENTS, Similarity, align

__all__ = ["ALIGNMENTS", "Similarity", "align", "quaternion", "se3", "sphere"]
