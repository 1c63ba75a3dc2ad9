"""The documentation as a site; `make docs` builds it, from files alone."""

from __future__ import annotations

from pathlib import Path

import arena_kit

ROOT = Path(__file__).parents[1]

project = "arena_kit"
author = "the arena_kit authors"
project_copyright = author
version = release = arena_kit.__version__

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "design/**.md", "*.md", "sample/*.md", "params/**.md"]
exclude_patterns = ["docs/_build"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["docs.css"]
html_title = f"arena_kit {release}"
html_show_sourcelink = False
html_copy_source = False
templates_path = ["_templates"]
html_additional_pages = {"index": "to_docs.html"}  # sources lie in docs/, readers begin at the top
