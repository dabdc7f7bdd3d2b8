r"""Every camera model that COLMAP knows, as a function of its parameters and of points in the camera's frame, and its derivatives.

A model is written once, for real or complex numbers. Derivatives are exact to rounding, by a complex step: for analytic f,

.. math:: f'(x) = \mathrm{Im}\, f(x + i h) / h + O(h^2), \quad h = 10^{-30},

without the cancellation of a difference. So branches look at real parts only, and nothing takes an absolute value or an ``atan2``
of a complex number.

Pixels have their centre at .5; camera axes are x right, y down, z forward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempose._typing import Array, Index
from tempose.errors import NotApplicable

_STEP = 1e-30
_SMALL = 1e-8  # below this radius or angle functions such as atan(r)/r are their limits

Numbers = NDArray[Any]  # real, or complex while a derivative is taken
Distortion = Callable[[Numbers, Numbers, Numbers], tuple[Numbers, Numbers]]


class Lens(NamedTuple):
    """A camera model.

    Attributes
    ----------
    names
        Of its parameters, in COLMAP's order.
    project
        ``(parameters, point (k, 3)) → pixel (k, 2)``.
    focal, centre, further
        Which parameters are focal lengths, the principal point, and distortion.
    """

    names: tuple[str, ...]
    project: Callable[[Numbers, Numbers], Numbers]
    focal: tuple[int, ...]
    centre: tuple[int, ...]
    further: tuple[int, ...]


def lens_of(model: str) -> Lens:
    """The camera model of COLMAP's name."""
    try:
        return LENSES[model]
    except KeyError:
        raise NotApplicable(f"the camera model {model} is not known; known are {', '.join(LENSES)}") from None


def project(lens: Lens, parameters: Array, point: Array) -> Array:
    """Pixels (k, 2) of points (k, 3) in the camera's frame; NaN where a point has no image."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(lens.project(parameters, point))


def derivatives(lens: Lens, parameters: Array, point: Array, free: Index | None = None) -> tuple[Array, Array]:
    """Derivatives of pixels by the points (k, 2, 3) and by the parameters (k, 2, m): all, or those at the places ``free`` (m,)."""
    free = np.arange(len(parameters)) if free is None else free
    by_point, by_parameter = np.empty((len(point), 2, 3)), np.zeros((len(point), 2, len(free)))
    still = point.astype(complex)
    with np.errstate(invalid="ignore", divide="ignore"):
        for k in range(3):
            moved = still.copy()
            moved[:, k] += 1j * _STEP
            image = lens.project(parameters, moved)
            by_point[:, :, k] = image.imag / _STEP
        for column, k in enumerate(free):
            if k in lens.centre:
                by_parameter[:, lens.centre.index(k), column] = 1.0
            elif k in lens.focal:  # pixels are a focal length times something, plus the principal point
                for axis, place in enumerate(lens.centre):
                    if len(lens.focal) == 1 or lens.focal[axis] == k:
                        by_parameter[:, axis, column] = (image.real[:, axis] - parameters[place]) / parameters[k]
            else:
                changed = parameters.astype(complex)
                changed[k] += 1j * _STEP
                by_parameter[:, :, column] = lens.project(changed, still).imag / _STEP
    return by_point, by_parameter


# ---------------------------------------------------------------------- functions of complex numbers


def _angle(y: Numbers, x: Numbers) -> Numbers:
    """``atan2(y, x)``, analytic in both."""
    steep = np.abs(y.real) > np.abs(x.real)
    ratio = np.where(steep, -x, y) / np.where(steep, y, x)
    quarter = np.where(steep, np.copysign(0.5 * np.pi, y.real), np.where(x.real < 0.0, np.copysign(np.pi, y.real), 0.0))
    return np.arctan(ratio) + quarter


def _radius(u: Numbers, v: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """``√(u² + v²)``, and where it is too small to divide by; it is 1 there."""
    squared = u * u + v * v
    small = squared.real < _SMALL**2
    return np.sqrt(np.where(small, 1.0, squared)), small


def _equidistant(u: Numbers, v: Numbers, w: Numbers) -> tuple[Numbers, Numbers]:
    """Fisheye coordinates: the angle to the optical axis, in the direction of (u, v); below a right angle, as in COLMAP."""
    r, small = _radius(u, v)
    scale = np.where(w.real <= 0.0, np.nan, np.where(small, 1.0 / w, _angle(r, w) / r))
    return scale * u, scale * v


def _pinhole(u: Numbers, v: Numbers, w: Numbers) -> tuple[Numbers, Numbers]:
    behind = w.real <= 0.0
    depth = np.where(behind, np.nan, w)
    return u / depth, v / depth


# ---------------------------------------------------------------------- distortions


def _none(c: Numbers, u: Numbers, v: Numbers) -> tuple[Numbers, Numbers]:
    return u, v


def _radial(c: Numbers, u: Numbers, v: Numbers) -> tuple[Numbers, Numbers]:
    """Polynomial in the squared radius, any number of coefficients."""
    s = u * u + v * v
    scale: Numbers = np.zeros_like(s)
    for k in c[::-1]:
        scale = (scale + k) * s
    return u * (1.0 + scale), v * (1.0 + scale)


def _tangential(p1: Any, p2: Any, u: Numbers, v: Numbers) -> tuple[Numbers, Numbers]:
    s = u * u + v * v
    return 2.0 * p1 * u * v + p2 * (s + 2.0 * u * u), 2.0 * p2 * u * v + p1 * (s + 2.0 * v * v)


def _opencv(c: Numbers, u: Numbers, v: Numbers) -> tuple[Numbers, Numbers]:
    x, y = _radial(c[:2], u, v)
    dx, dy = _tangential(c[2], c[3], u, v)
    return x + dx, y + dy


def _full_opencv(c: Numbers, u: Numbers, v: Numbers) -> tuple[Numbers, Numbers]:
    k1, k2, p1, p2, k3, k4, k5, k6 = c
    s = u * u + v * v
    scale = (1.0 + s * (k1 + s * (k2 + s * k3))) / (1.0 + s * (k4 + s * (k5 + s * k6)))
    dx, dy = _tangential(p1, p2, u, v)
    return u * scale + dx, v * scale + dy


def _fov(c: Numbers, u: Numbers, v: Numbers) -> tuple[Numbers, Numbers]:
    """A field of view ω: the angle grows with the distance from the middle."""
    (omega,) = c
    r, small = _radius(u, v)
    if abs(omega.real) < _SMALL:
        limit = 1.0 + omega * omega * (1.0 / 12.0 - (u * u + v * v) / 3.0)
        return u * limit, v * limit
    slope = 2.0 * np.tan(0.5 * omega)
    scale = np.where(small, slope, np.arctan(r * slope) / r) / omega
    return u * scale, v * scale


def _thin_prism(c: Numbers, u: Numbers, v: Numbers) -> tuple[Numbers, Numbers]:
    k1, k2, p1, p2, k3, k4, sx1, sy1 = c
    s = u * u + v * v
    x, y = _radial(np.array([k1, k2, k3, k4]), u, v)
    dx, dy = _tangential(p1, p2, u, v)
    return x + dx + sx1 * s, y + dy + sy1 * s


def _radial_tangential_thin_prism(c: Numbers, u: Numbers, v: Numbers) -> tuple[Numbers, Numbers]:
    """Tangential and prism terms act on what the radial ones have moved already."""
    x, y = _radial(c[:6], u, v)
    dx, dy = _tangential(c[7], c[6], x, y)
    s = x * x + y * y
    return x + dx + s * (c[8] + s * c[9]), y + dy + s * (c[10] + s * c[11])


# ---------------------------------------------------------------------- models


def _centred(flat: Callable[..., tuple[Numbers, Numbers]], distorted: Distortion, n_focal: int) -> Any:
    """A model of 1 or 2 focal lengths, a principal point and distortion in flat coordinates."""

    def image(c: Numbers, point: Numbers) -> Numbers:
        x, y = distorted(c[n_focal + 2 :], *flat(point[:, 0], point[:, 1], point[:, 2]))
        return np.stack([c[0] * x + c[n_focal], c[n_focal - 1] * y + c[n_focal + 1]], axis=1)

    return image


def _model(
    distortion: str, distorted: Distortion, n_focal: int, flat: Callable[..., tuple[Numbers, Numbers]] = _pinhole
) -> Lens:
    focal = ("f",) if n_focal == 1 else ("fx", "fy")
    further = tuple(distortion.split())
    places = range(n_focal + 2 + len(further))
    return Lens(
        (*focal, "cx", "cy", *further),
        _centred(flat, distorted, n_focal),
        tuple(places[:n_focal]),
        tuple(places[n_focal : n_focal + 2]),
        tuple(places[n_focal + 2 :]),
    )


def _division(n_focal: int) -> Lens:
    """The seen radius divided by ``1 + k r²`` is the pinhole's; the last parameter is k."""

    def image(c: Numbers, point: Numbers) -> Numbers:
        u, v, w = point.T
        root = w * w - 4.0 * c[-1] * (u * u + v * v)
        seen = root.real >= 0.0
        scale = 2.0 / np.where(seen, w + np.sqrt(np.where(seen, root, 1.0)), np.nan)
        return np.stack([c[0] * u * scale + c[n_focal], c[n_focal - 1] * v * scale + c[n_focal + 1]], axis=1)

    return _model("k", _none, n_focal)._replace(project=image)


def _eucm(c: Numbers, point: Numbers) -> Numbers:
    """Extended unified: ``d = α √(β (u² + v²) + w²) + (1 − α) w`` in place of the depth."""
    fx, fy, cx, cy, alpha, beta = c
    u, v, w = point.T
    depth = alpha * np.sqrt(beta * (u * u + v * v) + w * w) + (1.0 - alpha) * w
    depth = np.where(depth.real > 0.0, depth, np.nan)
    return np.stack([fx * u / depth + cx, fy * v / depth + cy], axis=1)


def _equirectangular(c: Numbers, point: Numbers) -> Numbers:
    """Longitude and latitude over the whole image; its two parameters are the image's size and never free."""
    u, v, w = point.T
    level = np.sqrt(u * u + w * w)
    longitude, latitude = _angle(u, w), _angle(v, level)
    return np.stack([c[0] * (0.5 + longitude / (2.0 * np.pi)), c[1] * (0.5 + latitude / np.pi)], axis=1)


LENSES: dict[str, Lens] = {
    "SIMPLE_PINHOLE": _model("", _none, 1),
    "PINHOLE": _model("", _none, 2),
    "SIMPLE_RADIAL": _model("k", _radial, 1),
    "RADIAL": _model("k1 k2", _radial, 1),
    "OPENCV": _model("k1 k2 p1 p2", _opencv, 2),
    "OPENCV_FISHEYE": _model("k1 k2 k3 k4", _radial, 2, _equidistant),
    "FULL_OPENCV": _model("k1 k2 p1 p2 k3 k4 k5 k6", _full_opencv, 2),
    "FOV": _model("omega", _fov, 2),
    "SIMPLE_RADIAL_FISHEYE": _model("k", _radial, 1, _equidistant),
    "RADIAL_FISHEYE": _model("k1 k2", _radial, 1, _equidistant),
    "THIN_PRISM_FISHEYE": _model("k1 k2 p1 p2 k3 k4 sx1 sy1", _thin_prism, 2, _equidistant),
    "RAD_TAN_THIN_PRISM_FISHEYE": _model(
        "k0 k1 k2 k3 k4 k5 p0 p1 s0 s1 s2 s3", _radial_tangential_thin_prism, 2, _equidistant
    ),
    "SIMPLE_DIVISION": _division(1),
    "DIVISION": _division(2),
    "SIMPLE_FISHEYE": _model("", _none, 1, _equidistant),
    "FISHEYE": _model("", _none, 2, _equidistant),
    "EUCM": Lens(("fx", "fy", "cx", "cy", "alpha", "beta"), _eucm, (0, 1), (2, 3), (4, 5)),
    "EQUIRECTANGULAR": Lens(("w", "h"), _equirectangular, (), (), ()),
}
