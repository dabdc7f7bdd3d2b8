"""The live viewer of a reconstruction, on viser: local only, with a slider for the uncertainty cut.

Other pages in the same browser can reach this machine's own address, too. So the viewer answers only who knows a random word
in its address, who asks for it by a name of this machine (else a page could make its own name mean this machine), and whose
page, if one asks, is the viewer's own.
"""

from __future__ import annotations

import hmac
import inspect
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose._typing import Array, Index, Mask
from tempose.sfm import words
from tempose.sfm.colours import colour_map, sigma_colours, sigma_ends
from tempose.sfm.scene import Scene

_SPHERE_STEPS = 16
_COLOURS = ("uncertainty", "photographs")


_LOCAL = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?")


@dataclass(frozen=True)
class Viewer:
    """A running viewer: viser's server, and the address that it answers at."""

    server: Any
    address: str

    def stop(self) -> None:
        """End it."""
        self.server.stop()


def serve(scene: Scene, port: int = 8080, colours: str = "viridis") -> Viewer:
    """Start a viewer on this machine's own address.

    Parameters
    ----------
    scene
        Cameras and points.
    port
        TCP port on 127.0.0.1; the next free one if it is taken.
    colours
        Of σ, by the name of the colour map.
    """
    viser = require("viser", "the viewer")
    token = secrets.token_urlsafe(16)
    with _guarded(token):
        server = viser.ViserServer(host="127.0.0.1", port=port, verbose=False)
    server.scene.set_up_direction("-y")
    server.initial_camera.look_at = scene.middle
    server.initial_camera.position = scene.middle - 4.0 * scene.bulk_radius * scene.viewing_direction
    _Cloud(server, scene, colours)
    _cameras(server, scene)
    return Viewer(server, f"http://127.0.0.1:{server.get_port()}/{token}/")


def refusal(token: str, path: str, host: str | None, origin: str | None) -> str | None:
    """Why a request is not answered; ``None`` if it is.

    Parameters
    ----------
    token
        The first part of every path.
    path
        What is asked for.
    host, origin
        The headers of these names, if there are any.
    """
    if host is None or not _LOCAL.fullmatch(host):
        return "the viewer is for this machine only"
    if origin is not None and origin != f"http://{host}":
        return "the viewer is for its own page only"
    first = path.partition("?")[0].split("/")[1:2]
    if not first or not hmac.compare_digest(first[0].encode(), token.encode()):
        return "the address of the viewer has a word in it, which tempose view prints"
    return None


@contextmanager
def _guarded(token: str) -> Iterator[None]:
    """Within, a server of viser that starts asks :func:`refusal` about every request, pages and sockets alike."""
    sockets: Any = import_module("websockets.asyncio.server")
    serve_all = sockets.serve

    def guarded(*arguments: Any, process_request: Callable[..., Any] | None = None, **more: Any) -> Any:
        async def process(connection: Any, request: Any) -> Any:
            headers = request.headers
            hosts, origins = headers.get_all("Host"), headers.get_all("Origin")
            alone = len(hosts) == 1 and len(origins) <= 1
            host, origin = (hosts[0], origins[0] if origins else None) if alone else (None, None)
            why = refusal(token, request.path, host, origin)
            if why is not None:
                return connection.respond(403, why + "\n")
            request.path = request.path.removeprefix(f"/{token}") or "/"
            answer = None if process_request is None else process_request(connection, request)
            return await answer if inspect.isawaitable(answer) else answer

        return serve_all(*arguments, process_request=process, **more)

    sockets.serve = guarded
    try:
        yield
    finally:
        sockets.serve = serve_all


class _Cloud:
    """Points and the controls that choose among them."""

    def __init__(self, server: Any, scene: Scene, colours: str) -> None:
        s = scene.structure
        self.server = server
        self.placed = np.all(np.isfinite(s.position), axis=1)
        self.weak = ~s.good
        self.sigma = s.sigma
        self.position = s.position
        self.colours = {"uncertainty": sigma_colours(s, colours)}
        if scene.colour is not None:
            self.colours["photographs"] = scene.colour
        self.size = 0.006 * scene.bulk_radius
        ordered = np.sort(self.sigma[~self.weak & np.isfinite(self.sigma)])
        self.low, self.high = (float(ordered[0]), float(ordered[-1])) if len(ordered) else (1.0, 1.0)
        gui = server.gui
        gui.add_markdown(f"1σ per axis, {words.gauge(scene.gauge)}")
        ends = sigma_ends(s)
        if ends is not None:
            gui.add_image(np.tile(colour_map(colours)(np.linspace(0.0, 1.0, 256)), (16, 1, 1)), label="Point σ")
            gui.add_markdown(f"from {ends[0]:.2g} to {ends[1]:.2g} {scene.unit}")
        self.choice = gui.add_dropdown("Colour by", tuple(name for name in _COLOURS if name in self.colours))
        self.cut = gui.add_slider("Cut (% of log σ)", min=0, max=100, step=1, initial_value=100)
        self.told = gui.add_text("Shown", initial_value="", disabled=True)
        self.unit = scene.unit
        self.show_weak = gui.add_checkbox("Weak points", initial_value=False)
        self.point_size = gui.add_slider("Point size", min=0.2, max=5.0, step=0.1, initial_value=1.0)
        for control in (self.choice, self.cut, self.show_weak, self.point_size):
            control.on_update(lambda _: self.draw())
        self.draw()

    def limit(self) -> float:
        """σ above which points are hidden."""
        share = self.cut.value / 100.0
        return float("inf") if share >= 1.0 else self.low * (self.high / self.low) ** share

    def shown(self) -> Mask:
        """Which points the controls ask for."""
        with np.errstate(invalid="ignore"):
            within = ~(self.sigma > self.limit())
        shown: Mask = self.placed & within & (~self.weak | bool(self.show_weak.value))
        return shown

    def draw(self) -> None:
        """Send the chosen points."""
        rows = self.shown()
        limit = self.limit()
        self.told.value = f"{int(rows.sum())} points" + (f", σ ≤ {limit:.3g} {self.unit}" if np.isfinite(limit) else "")
        self.server.scene.add_point_cloud(
            "/points",
            points=self.position[rows].astype(np.float32),
            colors=self.colours[self.choice.value][rows],
            point_size=self.size * self.point_size.value,
            point_shape="circle",
        )


def _cameras(server: Any, scene: Scene) -> None:
    scale = 0.12 * scene.bulk_radius
    covariance = scene.camera_covariance[:, 3:, 3:]
    enlarged = server.gui.add_slider(
        "Ellipsoids, enlarged", min=1, max=200, step=1, initial_value=_fitting(scene, scale)
    )
    for k, name in enumerate(scene.poses.ids):
        width, height = scene.image_size[k]
        server.scene.add_camera_frustum(
            f"/cameras/{k}",
            fov=2.0 * float(np.arctan(height / (2.0 * scene.intrinsics[k, 1, 1]))),
            aspect=float(width / height),
            scale=scale,
            wxyz=scene.poses.wxyz[k],
            position=scene.poses.position[k],
            color=(58, 91, 208),
            line_width=1.0,
        )
        server.scene.add_label(f"/cameras/{k}/name", str(name), visible=False)

    def draw() -> None:
        for k in np.flatnonzero(np.isfinite(covariance).all(axis=(1, 2))):
            vertices, faces = ellipsoid_mesh(covariance[k], 2.0 * enlarged.value)
            server.scene.add_mesh_simple(
                f"/ellipsoids/{k}",
                vertices=vertices.astype(np.float32),
                faces=faces.astype(np.uint32),
                color=(192, 43, 58),
                opacity=0.35,
                position=scene.poses.position[k],
            )

    enlarged.on_update(lambda _: draw())
    draw()


def _fitting(scene: Scene, size: float) -> int:
    """Factor that makes a typical 2σ ellipsoid as large as a camera is drawn."""
    sigma = scene.camera_sigma[1]
    typical = sigma[np.isfinite(sigma) & (sigma > 0.0)]
    return int(np.clip(size / (2.0 * np.median(typical)), 1, 200)) if len(typical) else 1


def ellipsoid_mesh(covariance: Array, level: float) -> tuple[Array, Index]:
    """Vertices (v, 3) and triangles (f, 3) of the ``level`` σ ellipsoid around the origin of a covariance (3, 3)."""
    values, vectors = np.linalg.eigh(covariance)
    theta, phi = np.meshgrid(
        np.linspace(0.0, np.pi, _SPHERE_STEPS), np.linspace(0.0, 2.0 * np.pi, 2 * _SPHERE_STEPS), indexing="ij"
    )
    sphere = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=-1).reshape(-1, 3)
    columns = 2 * _SPHERE_STEPS
    a = (np.arange(_SPHERE_STEPS - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    faces = np.concatenate([np.stack([a, a + columns, a + 1], 1), np.stack([a + 1, a + columns, a + columns + 1], 1)])
    return level * (sphere * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, faces
