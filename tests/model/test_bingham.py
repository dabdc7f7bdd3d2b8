"""The Bingham distribution: every number against a second way to compute it.

The package integrates along a contour in the complex plane. The references here never leave the real line: closed
forms in Bessel functions; the Hopf coordinates x = (√(1−s) (cos φ, sin φ), √s (cos ψ, sin ψ)), whose area element is
½ ds dφ dψ and in which the two angles integrate to Bessel functions; and a plain product rule over s, φ and ψ.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import i0e, i1e
from scipy.stats import kstest

from tempose.errors import ArgumentError
from tempose.geometry import quaternion
from tempose.model import bingham
from tempose.model.bingham import Bingham

GRID = list(itertools.combinations_with_replacement([0.0, 1e-9, 0.03, 1.0, 5.0, 30.0, 700.0, 2e4, 1e6], 3))
SHAPES = [
    (0.0, 0.0, 0.0),
    (0.0, 0.0, 1e6),
    (0.0, 1e-9, 1e6),
    (5.0, 5.0, 5.0),
    (0.3, 2.0, 9.0),
    (40.0, 3.0, 900.0),
    (1e6, 1e6, 1e6),
]
ROTATED = quaternion.normalize([0.3, -0.5, 0.7, 0.2])


def random_axes(seed):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((4, 4)))[0]


def panels(edges, order=24):
    """Gauss–Legendre nodes and weights on consecutive panels."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    edges = np.asarray(edges)
    half, middle = 0.5 * np.diff(edges), 0.5 * (edges[1:] + edges[:-1])
    return (middle[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * weights).ravel()


def angular(z):
    """⟨cos²⟩ and ⟨sin²⟩ under exp(−2z sin²φ): (1 ± I₁/I₀)/2, the second by its own series where that cancels."""
    bessel = i1e(z) / i0e(z)
    small = 0.25 / np.maximum(z, 1.0) * (1 + 1 / (4 * np.maximum(z, 1.0)) + 1 / (4 * np.maximum(z, 1.0) ** 2))
    return (1 + bessel) / 2, np.where(z > 2e3, small, (1 - bessel) / 2)


def hopf(lam):
    """F and E[xₖ²] (4, mode first) by quadrature of the positive integrand in s, on panels growing from s = 0."""
    order = np.argsort(lam)
    b, c, d = np.asarray(lam)[order]
    top = 45.0 / max(c, 45.0)
    edges = top * 3.0 ** -np.arange(0, max(2, np.ceil(np.log(top * (d - c) + 3) / np.log(3)) + 2))
    s, w = panels(np.append(edges, 0.0)[::-1])
    zab, zcd = (1 - s) * b / 2, s * (d - c) / 2
    w = w * i0e(zab) * i0e(zcd) * np.exp(-s * c)
    (cos_ab, sin_ab), (cos_cd, sin_cd) = angular(zab), angular(zcd)
    moments = np.array([(1 - s) * cos_ab, (1 - s) * sin_ab, s * cos_cd, s * sin_cd]) @ w / w.sum()
    out = np.empty(4)
    out[0], out[1 + order] = moments[0], moments[1:]
    return 2 * np.pi**2 * w.sum(), out


def product_rule(n=96):
    """Points (m, 4) and weights (m,) that integrate smooth functions over S³; knows nothing of Bingham."""
    s, w = panels([0.0, 1.0], 40)
    phi = np.arange(n) * 2 * np.pi / n
    s, phi, psi = (a.ravel() for a in np.meshgrid(s, phi, phi, indexing="ij"))
    r, t = np.sqrt(1 - s), np.sqrt(s)
    points = np.stack([r * np.cos(phi), r * np.sin(phi), t * np.cos(psi), t * np.sin(psi)], axis=-1)
    return points, np.repeat(0.5 * w, n * n) * (2 * np.pi / n) ** 2


# --- the normaliser and its derivatives ---------------------------------------------------------------------------


def test_uniform_normaliser_is_the_area_of_the_sphere():
    assert np.exp(bingham.log_normalizer(np.zeros(3))) == pytest.approx(2 * np.pi**2, rel=1e-13)


@pytest.mark.parametrize("lam", [1e-9, 1e-3, 0.5, 5.0, 60.0, 1e3, 3e4, 1e6])
def test_normaliser_against_closed_forms(lam):
    z = lam / 2
    closed = {  # ₁F₁(3/2; 2; −λ), (1 − e^−λ)/λ and ₁F₁(1/2; 2; −λ)
        (lam, lam, lam): i0e(z) - i1e(z),
        (0.0, lam, lam): -np.expm1(-lam) / lam,
        (0.0, 0.0, lam): i0e(z) + i1e(z),
    }
    for concentrations, value in closed.items():
        # the first form loses about z digits' worth to cancellation: 1e-10 at z = 5e5
        assert np.exp(bingham.log_normalizer(concentrations)) == pytest.approx(2 * np.pi**2 * value, rel=1e-9)


def test_normaliser_and_moments_against_real_quadrature():
    for lam in GRID:
        area, moments = hopf(lam)
        assert float(bingham.log_normalizer(lam)) == pytest.approx(np.log(area), abs=1e-12), lam
        np.testing.assert_allclose(-bingham.log_normalizer_gradient(lam), moments[1:], rtol=1e-10, err_msg=str(lam))


def test_the_reference_itself_and_the_product_rule_agree():
    points, weights = product_rule()
    for lam in [(0.0, 0.0, 0.0), (1.0, 4.0, 9.0), (25.0, 0.5, 12.0), (30.0, 30.0, 30.0)]:
        density = weights * np.exp(-np.square(points[:, [1, 2, 3]]) @ np.array(lam))
        area, moments = hopf(lam)
        assert density.sum() == pytest.approx(area, rel=1e-11)
        np.testing.assert_allclose(density @ np.square(points) / area, moments, rtol=1e-10)


def test_concentrated_limit_is_gaussian():
    lam = np.array([1e9, 3e10, 2e12])
    expected = np.log(2 * np.pi**1.5) - 0.5 * np.log(lam).sum()
    assert float(bingham.log_normalizer(lam)) == pytest.approx(expected, abs=2e-9)
    np.testing.assert_allclose(-bingham.log_normalizer_gradient(lam), 0.5 / lam, rtol=2e-9)


@pytest.mark.parametrize("lam", [(0.5, 0.5, 0.5), (0.3, 2.0, 9.0), (40.0, 3.0, 900.0), (10.0, 1e4, 1e6)])
def test_gradient_and_hessian_against_differences(lam):
    lam = np.array(lam)
    for k in range(3):
        h = 1e-3 * (1 + lam[k]) * np.eye(3)[k]
        for function, derivative in [
            (bingham.log_normalizer, bingham.log_normalizer_gradient(lam)[k]),
            (bingham.log_normalizer_gradient, bingham.log_normalizer_hessian(lam)[k]),
        ]:
            near = function(lam + h) - function(lam - h)
            far = function(lam + 2 * h) - function(lam - 2 * h)
            numeric = (8 * near - far) / (12 * h[k])
            scale = np.sqrt(np.diagonal(bingham.log_normalizer_hessian(lam)))
            scale = scale * scale[k] if numeric.ndim else scale[k]
            np.testing.assert_allclose(numeric / scale, derivative / scale, atol=2e-9)


def test_functions_are_batched_and_order_free():
    lam = np.array(GRID).reshape(5, -1, 3)
    assert bingham.log_normalizer(lam).shape == lam.shape[:-1]
    assert bingham.log_normalizer_hessian(lam).shape == (*lam.shape, 3)
    np.testing.assert_allclose(bingham.log_normalizer(lam[..., ::-1]), bingham.log_normalizer(lam), atol=1e-13)
    np.testing.assert_array_equal(bingham.log_normalizer(lam)[2, 3], bingham.log_normalizer(lam[2, 3]))


# --- density, gradient, moments, entropy --------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [(0.0, 0.0, 0.0), (0.3, 2.0, 9.0), (20.0, 1.0, 15.0)])
def test_density_moments_and_entropy_by_quadrature(lam):
    d = Bingham(random_axes(3), lam)
    points, weights = product_rule()
    logpdf = d.logpdf(points)
    mass = weights * np.exp(logpdf)
    assert mass.sum() == pytest.approx(1.0, rel=1e-11)
    np.testing.assert_allclose(np.einsum("n,na,nb->ab", mass, points, points), d.second_moment(), atol=1e-12)
    assert -mass @ logpdf == pytest.approx(d.entropy(), rel=1e-11)


@pytest.mark.parametrize("lam", SHAPES)
def test_second_moment_axes_trace_and_entropy(lam):
    d = Bingham(random_axes(4), lam)
    moment = d.second_moment()
    assert np.trace(moment) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(d.axes.T @ moment @ d.axes, np.diag(hopf(lam)[1]), atol=1e-12)
    area, squares = hopf(lam)
    assert d.entropy() == pytest.approx(np.log(area) + np.array(lam) @ squares[1:], abs=1e-9)


@pytest.mark.parametrize("lam", SHAPES)
def test_gradients_against_differences_and_antipodal_symmetry(lam):
    d = Bingham(random_axes(5), lam)
    x = quaternion.random_uniform(np.random.default_rng(6), (2, 5))
    numeric = np.stack([d.logpdf(x + h) - d.logpdf(x - h) for h in 0.5 * np.eye(4)], axis=-1)  # exact: quadratic
    scale = 1 + max(lam)
    np.testing.assert_allclose(d.grad_logpdf(x), numeric, atol=1e-13 * scale)
    tangent = d.riemannian_gradient(x)
    np.testing.assert_allclose(np.sum(tangent * x, axis=-1), 0.0, atol=1e-14 * scale)
    np.testing.assert_allclose(tangent, numeric - np.sum(numeric * x, -1)[..., None] * x, atol=1e-12 * scale)
    np.testing.assert_array_equal(d.logpdf(-x), d.logpdf(x))
    assert np.all(d.logpdf(x) <= d.logpdf(d.mode))


# --- constructors -------------------------------------------------------------------------------------------------


def test_from_mode_is_the_paper_potential():
    rng = np.random.default_rng(7)
    x = quaternion.random_uniform(rng, 20)
    nu = quaternion.multiply(x, quaternion.conjugate(ROTATED))[:, 1:]
    root = rng.standard_normal((3, 3))
    for lam in (4.0, np.array([1.0, 7.0, 20.0]), root @ root.T, np.diag([5.0, 2.0, 0.0])):
        full = np.diag(np.broadcast_to(lam, 3)) if np.ndim(lam) < 2 else lam
        d = Bingham.from_mode(ROTATED, lam)
        np.testing.assert_allclose(d.logpdf(x) - d.logpdf(ROTATED), -np.einsum("na,ab,nb->n", nu, full, nu), atol=1e-12)
    np.testing.assert_allclose(Bingham.from_mode(ROTATED, [1, 2, 3]).axes, quaternion.frame(ROTATED), atol=1e-15)


def test_from_matrix_up_to_a_shift():
    rng = np.random.default_rng(8)
    A = rng.standard_normal((4, 4))
    A = 10 * (A + A.T)
    x = quaternion.random_uniform(rng, 20)
    form = np.einsum("na,ab,nb->n", x, A, x)
    for shift in (0.0, 17.0):
        d = Bingham.from_matrix(A + shift * np.eye(4))
        np.testing.assert_allclose(d.logpdf(x) - d.logpdf(x[0]), form - form[0], atol=1e-11)
        assert np.all(np.diff(d.concentrations) >= 0)
    assert Bingham.from_matrix(np.eye(4)).entropy() == pytest.approx(Bingham.uniform().entropy(), abs=1e-13)


def test_arrays_are_copied_read_only_and_exactly_orthonormal():
    axes, lam = random_axes(9) * (1 + 3e-7), np.array([1.0, 2.0, 3.0])
    d = Bingham(axes, lam)
    lam[0] = 99.0
    assert d.concentrations[0] == 1.0
    np.testing.assert_allclose(d.axes.T @ d.axes, np.eye(4), atol=1e-14)
    with pytest.raises(ValueError, match="read-only"):
        d.axes[0, 0] = 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bingham(np.eye(3), np.ones(3)), r"axes must have shape \(4, 4\)"),
        (lambda: Bingham(np.ones((4, 4)), np.ones(3)), "orthonormal"),
        (lambda: Bingham(np.full((4, 4), np.nan), np.ones(3)), "orthonormal"),
        (lambda: Bingham(np.eye(4), np.ones(4)), r"shape \(3,\)"),
        (lambda: Bingham(np.eye(4), [1, -1, 1]), "between 0 and"),
        (lambda: Bingham(np.eye(4), [1, np.nan, 1]), "between 0 and"),
        (lambda: Bingham(np.eye(4), [1, np.inf, 1]), "between 0 and"),
        (lambda: Bingham.from_mode([1, 1, 0, 0], 1.0), "unit quaternion"),
        (lambda: Bingham.from_mode(np.eye(4), 1.0), r"shape \(4, 4\)"),
        (lambda: bingham.log_normalizer(-np.eye(3)), "got -1"),
        (lambda: Bingham.from_mode([1, 0, 0, 0], np.diag([1, 1, -1])), "positive semi-definite"),
        (lambda: Bingham.from_mode([1, 0, 0, 0], [[1, 2, 0], [0, 1, 0], [0, 0, 1]]), "symmetric"),
        (lambda: Bingham.from_matrix(np.eye(3)), r"shape \(4, 4\)"),
        (lambda: Bingham.from_matrix(np.triu(np.ones((4, 4)))), "symmetric"),
        (lambda: Bingham.from_matrix(np.full((4, 4), np.inf)), "finite"),
        (lambda: Bingham.uniform().logpdf(np.ones(3)), "last dimension of 4"),
        (lambda: bingham.log_normalizer(np.ones(4)), "last dimension of 3"),
        (lambda: bingham.concentration_from_sigma(0.0), "> 0 radians"),
        (lambda: bingham.sigma_from_concentration(-1.0), "≥ 0"),
        (lambda: Bingham.fit(np.ones((5, 3))), r"shape \(n, 4\)"),
        (lambda: Bingham.fit(np.ones((5, 4))), "sample 0"),
        (lambda: Bingham.fit(np.eye(4)[:3]), "at least 4 samples"),
        (lambda: Bingham.fit(np.eye(4), [1, 1, 1, 0]), "at least 4 samples"),
        (lambda: Bingham.fit(np.eye(4), [1, 1, 1, -1]), "weights"),
        (lambda: Bingham.fit(np.eye(4), [1, 1, 1]), "one for each sample"),
        (lambda: Bingham.fit(np.tile(ROTATED, (9, 1))), "fewer than 4 dimensions"),
        (lambda: Bingham.fit(np.repeat(np.eye(4)[:3], 5, axis=0)), "fewer than 4 dimensions"),
    ],
)
def test_mistakes_are_one_clear_line(make, message):
    with pytest.raises(ArgumentError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_small_angle_relations():
    sigma = np.array([1e-3, 0.02, 0.1])
    lam = bingham.concentration_from_sigma(sigma)
    np.testing.assert_allclose(bingham.sigma_from_concentration(lam), sigma, rtol=1e-15)
    assert bingham.sigma_from_concentration(0.0) == np.inf
    d = Bingham.from_mode(ROTATED, lam)
    np.testing.assert_allclose(d.rotation_sigma(), sigma, rtol=1e-15)
    # the rotation vectors of draws do have these standard deviations, about these axes
    draws = d.sample(np.random.default_rng(10), 40_000)
    omega = quaternion.log(quaternion.multiply(draws, quaternion.conjugate(ROTATED)))
    np.testing.assert_allclose(omega.std(axis=0) / sigma, 1.0, atol=5 / np.sqrt(2 * 40_000) + 0.1**2 / 3)


# --- sampling -----------------------------------------------------------------------------------------------------


def moment_z_scores(draws, d):
    """Errors of all second moments of the draws about the exact ones of d, in standard errors: (9,)."""
    local = draws @ d.axes
    squares = -np.append(np.nan, bingham.log_normalizer_gradient(d.concentrations))
    # x₀² is left to the other three, whose sum is 1 − x₀²
    pairs = list(itertools.combinations_with_replacement(range(4), 2))[1:]
    columns = [(local[:, j] * local[:, k], squares[j] if j == k else 0.0) for j, k in pairs]
    return np.array([(c.mean() - e) / (c.std(ddof=1) / np.sqrt(len(c))) for c, e in columns])


@pytest.mark.parametrize("lam", SHAPES)
def test_draws_have_the_exact_moments(lam):
    d = Bingham(random_axes(11), lam)
    draws = d.sample(np.random.default_rng(12), 60_000)
    np.testing.assert_allclose(np.linalg.norm(draws, axis=1), 1.0, atol=1e-14)
    assert np.abs(moment_z_scores(draws, d)).max() < 4.5
    assert abs(draws.mean(axis=0) @ d.mode) < 5 / np.sqrt(len(draws))  # both signs alike


def test_entropy_is_the_mean_of_minus_log_density():
    for lam in SHAPES[1:]:
        d = Bingham(random_axes(13), lam)
        surprise = -d.logpdf(d.sample(np.random.default_rng(14), 40_000))
        assert surprise.mean() == pytest.approx(d.entropy(), abs=4.5 * surprise.std() / np.sqrt(40_000))


@pytest.mark.parametrize("lam", SHAPES)
def test_draws_follow_the_exact_marginal(lam):
    """Kolmogorov–Smirnov on s = x_c² + x_d², the weight on the two most concentrated axes."""
    d = Bingham(random_axes(15), lam)
    order = np.argsort(lam)
    b, c, e = np.array(lam)[order]
    top = 45.0 / max(c, 45.0)
    grid = np.concatenate([[0.0], np.geomspace(1e-12, 1.0, 3000)]) * top
    s, w = panels(grid, 4)
    mass = (w * i0e((1 - s) * b / 2) * i0e(s * (e - c) / 2) * np.exp(-s * c)).reshape(-1, 4).sum(axis=1)
    cdf = np.append(0.0, np.cumsum(mass)) / mass.sum()
    draws = d.sample(np.random.default_rng(16), 20_000) @ d.axes[:, 1 + order]
    statistic = np.sum(draws[:, 1:] ** 2, axis=1)
    assert kstest(statistic, lambda q: np.interp(q, grid, cdf)).pvalue > 1e-3


def test_negative_controls(monkeypatch):
    """The statistics above do fail for a distribution that is a little wrong, and for a wrong envelope."""
    d = Bingham(random_axes(17), (3.0, 12.0, 40.0))
    rng = np.random.default_rng(18)
    assert np.abs(moment_z_scores(d.sample(rng, 60_000), d)).max() < 4.5
    wrong = Bingham(d.axes, d.concentrations * [1.0, 1.0, 1.05])
    assert np.abs(moment_z_scores(d.sample(rng, 60_000), wrong)).max() > 6
    # a bound that does not bound accepts too much where the ratio is low
    exact = bingham._envelope
    monkeypatch.setattr(bingham, "_envelope", lambda full: (exact(full)[0], exact(full)[1] - 1.0))
    assert np.abs(moment_z_scores(d.sample(rng, 60_000), d)).max() > 6


def test_sampling_shapes_and_seeds():
    d = Bingham.from_mode(ROTATED, [1.0, 10.0, 100.0])
    for size, shape in [((), (4,)), (0, (0, 4)), (3, (3, 4)), ((2, 5), (2, 5, 4))]:
        draws = d.sample(np.random.default_rng(19), size)
        assert draws.shape == shape
        np.testing.assert_array_equal(draws, d.sample(np.random.default_rng(19), size))


def test_envelope_bound_holds_and_acceptance_stays_high():
    """The ratio of density to envelope never passes the bound, and at least 44 % of the proposals are accepted."""
    for lam in [*SHAPES, (1e12, 1e12, 1e12)]:
        full = np.append(0.0, lam)
        omega, log_bound = bingham._envelope(full)
        x = quaternion.normalize(np.random.default_rng(25).standard_normal((20_000, 4)) / np.sqrt(omega))
        log_ratio = 2 * np.log(x**2 @ omega) - x**2 @ full
        assert log_ratio.max() <= log_bound + 1e-12
        log_rate = bingham.log_normalizer(lam) - np.log(2 * np.pi**2) + 0.5 * np.log(omega).sum() - log_bound
        assert 0.44 < np.exp(log_rate) <= 1 + 1e-12


# --- fitting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lam", [(0.0, 0.0, 0.0), (0.5, 1.0, 2.0), (3.0, 40.0, 900.0), (0.0, 1e3, 1e6), (1e6, 1e6, 4e6)]
)
def test_fit_recovers_parameters_and_solves_its_moment_equations(lam):
    true = Bingham(random_axes(20), lam)
    rng = np.random.default_rng(21)
    draws = true.sample(rng, 20_000)
    scatter = draws.T @ draws / len(draws)
    fitted = Bingham.fit(draws)
    np.testing.assert_allclose(fitted.second_moment(), scatter, atol=1e-12)
    local = np.diagonal(fitted.axes.T @ scatter @ fitted.axes)[1:]
    np.testing.assert_allclose(-bingham.log_normalizer_gradient(fitted.concentrations), local, rtol=1e-8)
    # Fisher information of λ is the Hessian of log F
    error = np.sqrt(np.diagonal(np.linalg.inv(bingham.log_normalizer_hessian(lam))) / len(draws))
    assert np.all(np.abs(fitted.concentrations - lam) < 5 * error)
    # a maximum: Wilks' theorem bounds what 9 free parameters can gain, and every neighbour is worse
    best = fitted.logpdf(draws).mean()
    assert 0.0 <= best - true.logpdf(draws).mean() < 35 / (2 * len(draws))
    for factor in itertools.product([0.98, 1.02], repeat=3):
        assert Bingham(fitted.axes, fitted.concentrations * factor).logpdf(draws).mean() < best


def test_fit_is_blind_to_signs_and_weights_count_copies():
    rng = np.random.default_rng(22)
    draws = Bingham.from_mode(ROTATED, [5.0, 20.0, 80.0]).sample(rng, 50)
    counts = rng.integers(0, 4, 50)
    signs = rng.choice([-1.0, 1.0], (50, 1))
    weighted = Bingham.fit(draws * signs, 0.37 * counts)
    copied = Bingham.fit(np.repeat(draws, counts, axis=0))
    np.testing.assert_allclose(weighted.concentrations, copied.concentrations, rtol=1e-10)
    np.testing.assert_allclose(weighted.mode, copied.mode, atol=1e-12)


def test_fit_of_any_moments():
    """From uniform to 1e-19: the concentrations found give back each moment."""
    rng = np.random.default_rng(23)
    for smallest in np.repeat([-1e-6, -0.1, -1.0, -6.0, -12.0, -19.0], 25):
        moments = np.sort(10.0 ** rng.uniform(smallest, 0.0, 4))[::-1]
        moments = moments / moments.sum()
        lam = bingham._concentrations_from_moments(moments)
        np.testing.assert_allclose(-bingham.log_normalizer_gradient(lam), moments[1:], rtol=1e-10)


def test_fit_at_the_edges():
    """Exactly uniform moments, and a spread of 1e-8 that the eigenvalues of the scatter matrix would lose."""
    np.testing.assert_allclose(Bingham.fit(np.eye(4)).concentrations, 0.0, atol=1e-12)
    true = Bingham.from_mode(ROTATED, 0.5e16)
    fitted = Bingham.fit(true.sample(np.random.default_rng(24), 5000))
    np.testing.assert_allclose(fitted.concentrations / true.concentrations, 1.0, atol=0.1)
