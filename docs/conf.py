"""Sphinx: ``make docs``, warnings are errors. Mathematics is MathML, so that the pages need no network and no script."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

import svmatlas

project = "svmatlas"
author = "the svmatlas authors"
copyright = "the svmatlas authors"
release = version = svmatlas.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
exclude_patterns = ["build"]

html_theme = "furo"
html_title = f"svmatlas {release}"
html_show_copyright = False
html_math_renderer = "mathml"


def visit_math(writer, node):
    """Write inline mathematics."""
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_displaymath(writer, node):
    """Write a formula of its own."""
    writer.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    """Tell Sphinx who writes mathematics."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
