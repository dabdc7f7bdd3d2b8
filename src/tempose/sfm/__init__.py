"""Photographs → pairs → scales → poses → points with error bars (extra ``sfm``)."""
