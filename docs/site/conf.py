# SPDX-License-Identifier: Apache-2.0
# Sphinx's options for the site; see scripts/site.sh.
from pathlib import Path

here = Path(__file__).resolve().parent
project = "msstream"
author = "the authors of msstream"
copyright = "the authors of msstream, Apache-2.0"
extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 5
suppress_warnings = ["myst.header"]
highlight_language = "none"

html_theme = "furo"
html_title = "msstream"
html_static_path = [str(here / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
# Summaries in search results would be fetched, which a page from a file may not do.
html_show_search_summary = False
# Output of programs is not copied to be run.
copybutton_selector = "div:not(.highlight-text):not(.highlight-none) > div.highlight pre"
