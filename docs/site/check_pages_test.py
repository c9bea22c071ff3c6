#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_pages.py."""
import tempfile
import unittest
from pathlib import Path

from check_pages import violations

INDEX = """# Home

[a page](docs/page.md#a-heading) [a class](#api-device) [far](https://example.com/#x)

````{code-block} text
```
[no link](nowhere.md)
````

```{toctree}
:hidden:

docs/page
The class <api/device>
```
"""
PAGE = "# A heading\n\n[home](../index.md) `[no link](nowhere.md)` ![a picture](picture.svg)\n"
DEVICE = "(api-device)=\n\n## Device\n\n```{code-block} cpp\n(api-device)=\n```\n"


class CheckPages(unittest.TestCase):
    def found(self, **changed):
        pages = {"index": INDEX, "docs/page": PAGE, "api/device": DEVICE, **changed}
        with tempfile.TemporaryDirectory() as folder:
            for name, text in pages.items():
                path = Path(folder, f"{name}.md")
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            Path(folder, "docs/picture.svg").touch()
            return list(violations(folder))

    def test_links_marks_and_contents_lead_to_what_there_is(self):
        self.assertEqual(self.found(), [])

    def test_a_file_or_an_anchor_that_is_missing_is_told_with_its_line(self):
        self.assertEqual(self.found(**{"docs/page": "# Other\n\n[b](gone.md) [c](#none)\n"}),
                         ["docs/page.md:3: there is no 'gone.md'",
                          "docs/page.md:3: there is no anchor '#none' in 'docs/page.md'",
                          "index.md:3: there is no anchor '#a-heading' in 'docs/page.md'"])

    def test_a_mark_is_known_to_all_pages_and_unique(self):
        self.assertEqual(self.found(**{"api/device": "# Device\n"}),
                         ["index.md:3: there is no anchor '#api-device' in 'index.md'"])
        self.assertEqual(self.found(**{"api/other": DEVICE}),
                         ["api/other.md:1: the anchor 'api-device' is at api/device.md:1 too"])

    def test_a_list_of_contents_names_pages(self):
        self.assertEqual(self.found(index=INDEX.replace("docs/page\n", "docs/none\n")),
                         ["index.md:13: there is no page 'docs/none'"])

    def test_a_folder_without_pages_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(len(list(violations(folder))), 1)


if __name__ == "__main__":
    unittest.main()
