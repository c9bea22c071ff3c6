# SPDX-License-Identifier: Apache-2.0
"""The commands that the pages show, in shell blocks without a file and in code of a line: their programs exist, and have
the options that they get. The options of a program are those that its sources name.
"""
import re

BLOCK = re.compile(r"^ *```sh *\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
COMMENT = re.compile(r"(?<!\S)#.*")
VARIABLE = re.compile(r"\w+=")
OPTION = re.compile(r"--[a-z][a-z0-9-]*")
BETWEEN = {"--", "|", "&&", "||", ";"}  # words between two commands
# Commands of the system, and of packages that a page tells to install.
OTHERS = {"apt-get", "cd", "cmake", "conan", "ctest", "g++", "gzip", "head", "mpirun", "mv", "ncu", "nsys", "nvcc",
          "pip", "python3", "spack", "sudo", "torchrun", "vcpkg"}
OF_THE_READER = (".venv/", "build/", "./")  # folders of the reader's own project
PATHS = (".ci/", "benchmarks/", "docs/", "examples/", "scripts/", "tests/", "tools/")
# Names of programs, a file or folder that each has, and where their sources name the options; without sources, the
# options are those of another library.
NAMES = ((re.compile(r"((?:train|serve)_\w+)"), "examples/{}", ("apps", "examples/{}")),
         (re.compile(r"teach_(\w+)"), "examples/teach/{}.*", ("examples/teach",)),
         (re.compile(r"msstream-(doctor|overlap)"), "tools/{}", ("apps/cli", "tools/{}")),
         (re.compile(r"(msstream-memory)"), "tools/{}", ("tools/{}",)),
         (re.compile(r"(shapes)_sweep"), "benchmarks/{}/main.cpp", ("benchmarks/{}",)),
         (re.compile(r"(\w+_benchmark)"), "benchmarks/*/{}.cpp", ()))
# Scripts that pass their options on, and the program that gets them if none is named.
PASSING = {"scripts/train.sh": "train_wdl", "scripts/run.sh": None, "scripts/test.sh": None,
           "examples/teach/as_processes.sh": None}


def commands_of(page):
    """Yields the line number of each command of a block of shell, and its words."""
    for block in BLOCK.finditer(page):
        first = page.count("\n", 0, block.start(1)) + 1
        lines = block.group(1).split("\n")
        for number, line in enumerate(lines):
            if number and lines[number - 1].endswith("\\"):
                continue  # it belongs to the command before
            end = number
            while lines[end].endswith("\\"):
                end += 1
            words = COMMENT.sub("", " ".join(part.rstrip("\\") for part in lines[number:end + 1])).split()
            if words:
                yield first + number, words


def spans_of(page):
    """Yields the line number and the words of each code of a line outside blocks."""
    text = FENCED.sub(lambda block: "\n" * block.group().count("\n"), page)
    for span in SPAN.finditer(text):
        yield text.count("\n", 0, span.start()) + 1, span.group(1).split()


class Programs:
    """The programs of a source tree, and the options that their sources name."""

    def __init__(self, root):
        self.root = root
        self.texts = {}

    def is_named_like_one(self, word):
        return any(name.fullmatch(word.split("/")[-1]) for name, _, _ in NAMES) and (
            "/" not in word or word.startswith("build/"))

    def find(self, word):
        """Returns the files and folders with the sources of a program or script, or None if there is no such one."""
        path = re.sub(r"^(\.\./)?msstream/", "", word)
        if path.startswith(PATHS):
            return (path,) if (self.root / path).is_file() else None
        if self.is_named_like_one(path):
            for name, place, sources in NAMES:
                found = name.fullmatch(path.split("/")[-1])
                if found and any(self.root.glob(place.format(found.group(1)))):
                    return tuple(source.format(found.group(1)) for source in sources)
        return None

    def have(self, sources, option):
        return option == "--help" or any(re.search(rf"{option}(?![\w-])", self.text(source)) for source in sources)

    def text(self, source):
        if source not in self.texts:
            path = self.root / source
            files = [path] if path.is_file() else sorted([*path.rglob("*.cpp"), *path.rglob("*.hpp")])
            self.texts[source] = "\n".join(file.read_text(encoding="utf-8") for file in files)
        return self.texts[source]


def wrong_options(programs, words):
    """Yields the options of a command that its program does not have."""
    program, sources = "", ()
    for word in words:
        if word in BETWEEN:
            sources = ()
        elif (found := programs.find(word)) is not None:
            program, sources = word, found
            if word in PASSING:
                of_default = programs.find(PASSING[word] or "")
                sources = (*found, *of_default) if of_default else ()
        elif sources and (option := OPTION.match(word)) and not programs.have(sources, option.group()):
            yield f"'{program}' has no option {option.group()}"


def wrong_commands(programs, page, name):
    """Yields the commands of a page whose program does not exist, or does not have their options."""
    for line, words in commands_of(page):
        if "$(" in words[0]:
            continue  # a variable gets what a command prints
        while words and VARIABLE.match(words[0]):
            words = words[1:]
        for at, word in enumerate(words):
            is_first = at == 0 and "$" not in word and word not in OTHERS and not word.startswith(OF_THE_READER)
            if (is_first or programs.is_named_like_one(word)) and programs.find(word) is None:
                yield f"{name}:{line}: there is no program '{word}'"
        yield from (f"{name}:{line}: {wrong}" for wrong in wrong_options(programs, words))
    for line, words in spans_of(page):
        if words and programs.find(words[0]) is not None:
            yield from (f"{name}:{line}: {wrong}" for wrong in wrong_options(programs, words))
