"""Photographs → pairs → scales → poses → points with error bars (extra ``sfm``).

One file per stage. Pixels have their centre at .5, COLMAP's convention, and are free of lens distortion, so that every
camera is a pinhole ``K``.
"""
