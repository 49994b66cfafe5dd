"""Sphinx: ``make docs``, warnings are errors."""

import svmatlas

project = "svmatlas"
author = "the svmatlas authors"
copyright = "the svmatlas authors"
release = version = svmatlas.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
exclude_patterns = ["build"]

html_theme = "furo"
html_title = f"svmatlas {release}"
html_show_copyright = False
