"""Sphinx: the docs as pages, and a reference of what programs call. `uv run --group docs
sphinx-build docs _site/docs`."""

from fedrepro.core.version import package_version

project, author, release = "fedrepro", "the authors of fedrepro", package_version()
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["conf.py"]
myst_heading_anchors = 3
myst_url_schemes = {
    "http": None,
    "https": None,
    "mailto": None,
    "file-of-the-repository": "../{{path}}",
}
autodoc_typehints = "description"
html_theme_options = {
    "description": "Four federated-learning papers, reproduced",
    "fixed_sidebar": True,
    "page_width": "1100px",
}
html_show_sourcelink = False


def setup(app):
    """Leave links out of the docs as they are: the site has the repository's files in the same
    places."""
    app.connect(
        "source-read",
        lambda app, name, source: source.__setitem__(
            0, source[0].replace("](../", "](file-of-the-repository:")
        ),
    )
