"""The site of these documents: ``pip install '.[docs]' && sphinx-build -W -b html docs site``.

Sphinx, not mkdocs: references are resolved and warnings are errors, docstrings are reStructuredText already, notebooks are run
while the pages are built (MyST-NB), and the search works from a folder, without a server.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "tempose"
author = "The tempose developers"
copyright = author
version = release = metadata.version("tempose")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "from_the_package"]
exclude_patterns = ["_build", "_ext", "figures"]
smartquotes = False  # --options keep their dashes
html_theme = "furo"
html_title = "tempose"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 900
nb_merge_streams = True
nb_render_image_options = {"alt": "Figure made by the code above"}

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False
napoleon_use_rtype = False
suppress_warnings = ["ref.python"]  # fields of one name in several classes: the names of fields need no links
