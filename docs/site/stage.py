#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies the pages of the site to where Sphinx reads them: docs/site/stage.py FOLDER.

The pages keep their places, README.md as index.md. Blocks that name the file that they are cut from get it as a caption.
Sources to which pages link become pages, and a folder becomes a page that lists its sources, so that the site is complete
without the repository.
"""
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from check_snippets import FENCE, FOLDERS, LINK, pages_of  # noqa: E402

LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".cu": "cpp", ".py": "python", ".json": "json", ".sh": "sh", ".cmake": "cmake",
             "CMakeLists.txt": "cmake"}
SITE = Path("docs/site")
PICTURES = (".svg", ".png")
# A block with the file that it is cut from, whose program prints it, or which has its text.
NAMED = re.compile(rf"^( *)```({'|'.join(FOLDERS)}|text|json) +(\S+/.*)$")


def language_of(path):
    """Returns the language in which a page shows a file, or None."""
    return LANGUAGES.get(path.suffix, LANGUAGES.get(path.name))


def page_of_source(path):
    """Returns the name of the page that shows a file or folder of the repository."""
    return f"files/{path.as_posix().replace('/', '-').replace('.', '-')}.md"


class Stage:
    def __init__(self, folder):
        self.folder = folder
        self.sources = set()

    def write(self, path, text):
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding="utf-8")

    def target(self, page, found):
        """Returns a link as the staged page has it: sources lead to their pages."""
        file, heading = found.groups()
        whole = found.group()
        if not file or re.match(r"\w+:", file):
            return whole
        path = (ROOT / page.parent / file).resolve().relative_to(ROOT)
        if path.suffix in PICTURES:
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.folder / path)
            return whole
        if path == Path("README.md"):
            return whole.replace("README.md", "index.md")
        if path.suffix == ".md":
            return whole
        self.sources.add(path)
        return f"]({'../' * len(page.parent.parts)}{page_of_source(path)})"

    def page(self, page):
        lines, in_code = [], False
        for line in (ROOT / page).read_text(encoding="utf-8").split("\n"):
            if named := NAMED.match(line):
                indent, language, name = named.groups()
                source = Path(name.split()[0])
                if source.suffix == ".md":  # a page with the block
                    place = name
                else:
                    self.sources.add(source)
                    place = page_of_source(source)
                link = f"[{name}]({'../' * len(page.parent.parts)}{place})"
                caption = f"Output of {link}" if language == "text" and name.startswith("examples/") else link
                line = f'{indent}```{{code-block}} {language}\n{indent}:caption: "{caption}"\n{indent}:force:\n'
                in_code = True
            elif FENCE.match(line):
                in_code = not in_code
                if in_code and line.strip() == "```cpp":
                    line = line.replace("```cpp", "```{code-block} cpp") + f"\n{line[:len(line) - len(line.lstrip())]}:force:\n"
            elif not in_code:
                parts = re.split(r"(`[^`]*`)", line)  # the odd ones are code
                parts[::2] = (LINK.sub(lambda found: self.target(page, found), part) for part in parts[::2])
                line = "".join(parts)
            lines.append(line)
        self.write("index.md" if page == Path("README.md") else page, "\n".join(lines))

    def source_pages(self):
        for path in sorted(self.sources):
            if (ROOT / path).is_dir():
                self.sources.update(one.relative_to(ROOT) for one in (ROOT / path).iterdir()
                                    if one.is_dir() or language_of(one))
        for path in sorted(self.sources):
            page = page_of_source(path)
            title = f"---\norphan: true\n---\n\n# {path.as_posix()}\n\n"
            if (ROOT / path).is_dir():
                inside = sorted(one for one in self.sources if one.parent == path)
                self.write(page, title + "".join(f"- [{one.name}]({Path(page_of_source(one)).name})\n" for one in inside))
            elif language_of(path):
                text = (ROOT / path).read_text(encoding="utf-8")
                self.write(page, f"{title}````{{code-block}} {language_of(path)}\n:linenos:\n:force:\n\n{text}````\n")
            else:
                (self.folder / "files").mkdir(exist_ok=True)
                shutil.copy(ROOT / path, self.folder / "files" / path.name)
                self.write(page, f"{title}[{path.name}]({path.name}), {(ROOT / path).stat().st_size:,} bytes\n")


def main():
    stage = Stage(Path(sys.argv[1]))
    for page in pages_of(ROOT):
        stage.page(page.relative_to(ROOT))
    stage.source_pages()
    # The home page is README.md; the contents follow it.
    with (stage.folder / "index.md").open("a", encoding="utf-8") as index:
        index.write((ROOT / SITE / "contents.txt").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
