"""Error bars of a bundle adjustment: cameras, calibration and points together.

1. :mod:`.lenses`: all of COLMAP's camera models with their derivatives; :mod:`.problem`: a model as plain arrays.
2. :mod:`.linear`: residuals and derivatives; :mod:`.reduced`: normal equations without the points, and their factor.
3. :mod:`.gauges`: what error bars hold still; :mod:`.covariance`: blocks of the inverse in a gauge.
4. :mod:`.systematic`: what the camera model is wrong by; :mod:`.posterior`: noise and model together, and draws.
"""
