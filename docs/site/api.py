#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the reference from the docstrings of the public headers: docs/site/api.py FOLDER [--most-undocumented N].

Writes a page for each header, in a folder for each room, and the file undocumented.txt with the public members that have
no docstring. Prints how many have one. Some members need none, since their declarations say all: functions that are
defaulted, and types that name a template parameter of their class. Members of a class for the library only need none
either. Ends with status 1 if Doxygen warns about a docstring, for example about a
reference to a name that does not exist, or if more than N members have none.
"""
import argparse
import itertools
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as Xml
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from check_layers import INCLUDE, ROOMS, STEPS  # noqa: E402

# Warnings of Doxygen 1.9.4 about declarations that it cannot parse. They are about no docstring.
NOT_OF_DOCSTRINGS = ("Internal inconsistency", "no uniquely matching class member")
# A face X derives from the specialisation that docs/site/Doxyfile renames to XBase.
BASE = re.compile(r"\b(\w+)Base\b(?=$|::|<|\W)")
LIBRARY = "For use by the library"


def tidy(code):
    """Returns code in the layout of the headers: `T const& x`, `Tensor<float, R>`."""
    code = re.sub(r"\[\[nodiscard(\(.*?\))?\]\] *|\bNODISCARD\b", "", code)
    code = re.sub(r"\s*<\s+", "<", code)
    while code != (code := re.sub(r"(?<=[\w>*&.)])\s+>(?!=)", ">", code)):
        pass
    code = re.sub(r"\s+", " ", re.sub(r"(?<=[\w>.)]) +([&*]+)(?=[\s\w,)>.]|$)", r"\1 ", code))
    code = re.sub(r"(?<=\d) '(?=\d)", "'", code)  # digits in groups
    return re.sub(r" (?=[,)]|\.\.\.)", "", code).strip()


def line_of(element):
    return int(element.find("location").get("line"))


def text_of(element):
    return "" if element is None else "".join(element.itertext()).strip()


class Pages:
    """The compounds that Doxygen found, and the pages on which their members are."""

    def __init__(self, xml):
        self.compounds = {}
        for path in sorted(xml.glob("*.xml")):
            if path.name.startswith(("class", "struct", "concept", "namespace")):
                for compound in Xml.parse(path).getroot().findall("compounddef"):
                    self.compounds[compound.get("id")] = compound
        # The anchors of declarations, those that have been written, and those to which links may lead.
        self.anchors, self.written, self.linked, self.described = {}, set(), set(), {}
        taken = set()
        self.total, self.missing = 0, set()
        # What the concepts of runtimes require is described there, and not again in each runtime.
        headers = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "include/msstream/runtime").glob("*.hpp"))
        concepts = " ".join(re.findall(r"concept \w+ =(.*?)\n\n", headers, re.DOTALL))
        self.required = set(re.findall(r"\b(?:\w+\.|R::)(\w+)", concepts))
        for compound in self.compounds.values():
            name = self.name_of(compound)
            if compound.get("kind") != "namespace":
                self.anchors[compound.get("id")] = slug("api-" + name)
        taken.update(self.anchors.values())
        for compound in self.compounds.values():
            name, named = self.name_of(compound), {}
            for member in compound.iter("memberdef"):
                if member.get("prot") != "public":
                    continue
                if member.get("kind") in ("variable", "typedef") and compound.get("id") in self.anchors:
                    self.anchors[member.get("id")] = self.anchors[compound.get("id")]  # it is in a list of the class
                else:
                    owner = "" if name == "msstream" else name + "::"
                    full = owner + text_of(member.find("name"))
                    key = full, member.find("location").get("file")  # overloads in two headers are on two pages
                    if key not in named:
                        anchor, number = slug("api-" + full), 1
                        while (wanted := f"{anchor}-{number}" if number > 1 else anchor) in taken:
                            number += 1
                        taken.add(wanted)
                        named[key] = wanted
                    self.anchors[member.get("id")] = named[key]
                    for value in member.findall("enumvalue"):
                        self.anchors[value.get("id")] = self.anchors[member.get("id")]

        # A member of a face without a docstring has that of the base's member of the same name.
        for compound in self.compounds.values():
            for base in self.bases(compound):
                theirs = {text_of(one.find("name")): one for one in base.iter("memberdef") if self.description(one)}
                self.described.update({one.get("id"): theirs[name] for one in compound.iter("memberdef")
                                       if (name := text_of(one.find("name"))) in theirs and not self.description(one)})

    @staticmethod
    def name_of(compound):
        """Returns the name without `msstream::`, and without the suffix of a renamed specialisation."""
        return BASE.sub(r"\1", text_of(compound.find("compoundname"))).removeprefix("msstream::")

    def markdown(self, element):
        """Returns a description as Markdown."""
        blocks, line = [], [re.sub(r"([\\`*_<\[\]$~#|{}])", r"\\\1", element.text or "")]

        def end_of_line():
            words = re.sub(r"\s+", " ", "".join(line)).strip()
            blocks.extend([words] if words else [])
            line.clear()

        for child in element:
            if child.tag == "ref":
                anchor, words = self.anchors.get(child.get("refid")), text_of(child)
                line.append(f"[`{words}`](#{anchor})" if anchor in self.linked else f"`{words}`")
            elif child.tag == "computeroutput":
                line.append(f"`{BASE.sub(chr(92) + '1', text_of(child))}`")
            elif child.tag == "ulink":
                line.append(f"[{text_of(child)}]({child.get('url')})")
            elif child.tag in ("lsquo", "rsquo"):
                line.append("'")
            elif child.tag == "verbatim":
                end_of_line()
                blocks.append(f"```{{code-block}} cpp\n:force:\n\n{(child.text or '').rstrip()}\n```")
            elif child.tag in ("itemizedlist", "orderedlist"):
                end_of_line()
                mark = "-" if child.tag == "itemizedlist" else "1."
                blocks.append("\n".join(f"{mark} " + self.markdown(item).replace("\n", "\n   ") for item in child))
            elif child.tag == "para":
                end_of_line()
                blocks.append(self.markdown(child))
            else:
                raise ValueError(f"api.py does not know the element <{child.tag}> of Doxygen's descriptions")
            line.append(re.sub(r"([\\`*_<\[\]$~#|{}])", r"\\\1", child.tail or ""))
        end_of_line()
        return "\n\n".join(filter(None, blocks))

    def description(self, element):
        if element.get("id") in self.described:
            element = self.described[element.get("id")]
        brief, rest = (self.markdown(element.find(tag)) for tag in ("briefdescription", "detaileddescription"))
        return f"{brief}{' ' if brief and rest and rest[0] not in '`-1' else chr(10) * 2}{rest}".strip()

    def target(self, anchor):
        """Returns the mark that gives the next heading its anchor, the first time that the anchor is asked for."""
        if anchor in self.written:
            return ""
        self.written.add(anchor)
        return f"({anchor})=\n\n"

    @staticmethod
    def shown(member):
        return text_of(member.find("qualifiedname")).removeprefix("msstream::")

    def bases(self, compound):
        """Returns the renamed specialisations from which a face derives."""
        return [self.compounds[base.get("refid")] for base in compound.findall("basecompoundref")
                if text_of(base).split("<")[0].endswith("Base") and base.get("refid") in self.compounds]

    def is_base(self, compound):
        """Returns whether a compound is a renamed specialisation."""
        return compound.get("id").removesuffix("Base") != compound.get("id") and compound.get("id")[:-4] in self.compounds

    def members(self, compound):
        """Yields the public members in the order of the header, and then those of a renamed base that the face does not
        declare itself. Left out are members that name types of internal namespaces: they are for the library."""
        own = set()
        for member in sorted(compound.iter("memberdef"), key=line_of):
            name, arguments = text_of(member.find("name")), text_of(member.find("argsstring"))
            types = " ".join(text_of(one) for one in member.findall("type") + member.findall("param/type"))
            conditions = text_of(member.find("templateparamlist")) + text_of(member.find("requiresclause"))
            if (member.get("prot") != "public" or member.get("kind") == "friend" or name.startswith(("~", "operator="))
                    or "<" in name or "->" in arguments or "=delete" in arguments.replace(" ", "")
                    or "memory::" in types or "detail::" in types + text_of(member.find("qualifiedname")) or "detail::AnyRuntime" in conditions):
                continue
            own.add(name)
            yield member
        for base in self.bases(compound):
            yield from (member for member in self.members(base) if text_of(member.find("name")) not in own)

    @staticmethod
    def says_all(member, parameters):
        """Returns whether a declaration needs no docstring: a defaulted function, or a type that is one of the template
        parameters of its class."""
        arguments = text_of(member.find("argsstring")).replace(" ", "")
        return arguments.endswith("=default") or (member.get("kind") == "typedef" and text_of(member.find("type")) in parameters)

    def count(self, owner, members, around="", parameters=()):
        """Counts members with and without docstrings. Overloads share one, and the docstring around them may name them."""
        if LIBRARY in around:
            return
        members = [member for member in members if not self.says_all(member, parameters)]
        for name in {text_of(member.find("name")) for member in members}:
            same = [member for member in members if text_of(member.find("name")) == name]
            self.total += 1
            in_runtime = same[0].find("location").get("file").startswith("msstream/runtime/")
            if f"`{name}`" not in around and not (in_runtime and name in self.required) and not any(self.description(member) for member in same):
                place = same[0].find("location")
                self.missing.add(f"include/{place.get('file')}: {owner}{name}")


def slug(anchor):
    return re.sub(r"[^a-z0-9]+", "-", anchor.lower()).strip("-")


def template_of(element):
    parameters = element.find("templateparamlist")
    if parameters is None:
        return []
    words = [tidy(f"{text_of(one.find('type'))} {text_of(one.find('declname'))}" +
                  (f" = {text_of(one.find('defval'))}" if one.find("defval") is not None else "")) for one in parameters]
    lines = [f"template <{', '.join(words)}>"] if words else []
    if (clause := element.find("requiresclause")) is not None and words:
        lines.append(f"  requires {tidy(text_of(clause))}")
    return lines


def signature(member):
    """Returns the declaration of a member as lines of code, without the parameter for the caller's location."""
    kind, name = member.get("kind"), text_of(member.find("name"))
    kind_of = tidy(BASE.sub(r"\1", text_of(member.find("type"))))
    if kind == "typedef":
        return [*template_of(member), f"using {name} = {kind_of};"]
    if kind == "enum":
        values = ", ".join(text_of(value.find("name")) for value in member.findall("enumvalue"))
        return [f"enum class {name} {{ {values} }};"]
    begin = "static " if member.get("static") == "yes" and "static" not in kind_of else ""
    begin += "explicit " if member.get("explicit") == "yes" and "explicit" not in kind_of else ""
    begin += "virtual " if member.get("virt") != "non-virtual" and kind == "function" else ""
    begin += f"{kind_of} " if kind_of else ""
    if kind == "variable":
        value = text_of(member.find("initializer"))
        value = value if len(value) < 60 and "\n" not in value else ""
        return [*template_of(member), tidy(f"{begin}{name}{text_of(member.find('argsstring'))} {value}") + ";"]
    parameters = []
    for one in member.findall("param"):
        words = f"{text_of(one.find('type'))} {text_of(one.find('declname'))}{text_of(one.find('array'))}"
        default = text_of(one.find("defval"))
        if "source_location" in words and "current()" in default:
            continue
        parameters.append(tidy(BASE.sub(r"\1", words)) + (f" = {tidy(default)}" if default else ""))
    end = text_of(member.find("argsstring")).rpartition(")")[2].strip()
    end = f" {tidy(end)}" if end and not end.startswith("=") else ""
    line = f"{begin}{name}({', '.join(parameters)}){end};"
    if len(line) > 90:
        line = f"{begin}{name}(\n    " + ",\n    ".join(parameters) + f"){end};"
    return [*template_of(member), line]


def code(lines):
    return "```{code-block} cpp\n:force:\n\n" + "\n".join(lines) + "\n```"


def sections(pages, members, level):
    """Yields the text about members: a heading for each name, and below it each declaration with its docstring."""
    before = None
    for member in members:
        name = text_of(member.find("name"))
        words = pages.description(member)
        if words.startswith(LIBRARY):
            continue
        if level > 2 and member.get("kind") in ("variable", "typedef"):
            yield f"- `{' '.join(signature(member)).rstrip(';')}`" + (": " + words.replace("\n", "\n  ") if words else "")
            before = None
            continue
        if name != before:
            yield f"{pages.target(pages.anchors[member.get('id')])}{'#' * level} {pages.shown(member) if level == 2 else name}"
            before = name
        yield code(signature(member))
        if words:
            yield words
        values = [f"- `{text_of(value.find('name'))}`: {pages.description(value)}"
                  for value in member.findall("enumvalue") if pages.description(value)]
        if values:
            yield "\n".join(values)


def class_section(pages, compound):
    name, kind = pages.name_of(compound), compound.get("kind")
    yield f"{pages.target(slug('api-' + name))}## {name}"
    bases = [tidy(text_of(base)) for base in compound.findall("basecompoundref") if base.get("prot") == "public"
             and not text_of(base).split("<")[0].endswith("Base") and "detail::" not in text_of(base)]
    if kind == "concept":
        yield code([tidy(text_of(compound.find("initializer")))])
    else:
        yield code([*template_of(compound), f"{kind} {name}{' : public ' + ', '.join(bases) if bases else ''};"])
    yield from filter(None, [pages.description(compound)])
    members = list(pages.members(compound))
    parameters = {text_of(one.find("declname")) or text_of(one.find("type")).split()[-1]
                  for one in compound.findall("templateparamlist/param")}
    pages.count(name + "::", members, pages.description(compound), parameters)
    yield from sections(pages, members, 3)


def page_of(pages, header, compounds, members):
    """Returns the page of a header."""
    yield f"# {header.removeprefix('msstream/')}"
    yield code([f"#include <{header}>"])
    pages.count("", members)
    parts = [(min(line_of(part) for part in (one, *pages.bases(one))), class_section(pages, one)) for one in compounds]
    for _, same in itertools.groupby(members, lambda one: text_of(one.find("name"))):
        same = list(same)
        parts.append((line_of(same[0]), sections(pages, same, 2)))
    for _, texts in sorted(parts, key=lambda part: part[0]):
        yield from texts


def run_doxygen(folder):
    """Runs Doxygen and returns its warnings about docstrings."""
    config = (ROOT / "docs/site/Doxyfile").read_text(encoding="utf-8") + f"OUTPUT_DIRECTORY = {folder}\n"
    done = subprocess.run(["doxygen", "-"], input=config, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stderr.split("\n")
            if "warning:" in line and not any(words in line for words in NOT_OF_DOCSTRINGS)]


def included_by(room, rooms):
    """Returns the other rooms whose headers those of a room include, the lowest first."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "include/msstream" / room).rglob("*.[hc]*")]
    found = {name for text in texts for _, header in INCLUDE.findall(text) for name in header.split("/")[1:2]}
    return sorted((found & rooms.keys()) - {room}, key=lambda name: (STEPS[name], name))


def write(folder, pages):
    headers = {}
    for compound in pages.compounds.values():
        if compound.get("kind") == "namespace":
            for member in pages.members(compound):
                headers.setdefault(member.find("location").get("file"), ([], []))[1].append(member)
        elif not pages.is_base(compound) and compound.get("prot") != "private":
            headers.setdefault(compound.find("location").get("file"), ([], []))[0].append(compound)
    rooms = {}
    for header, (compounds, members) in sorted(headers.items()):
        _, room, rest = header.split("/", 2)
        name = re.sub(r"\.\w+$", "", rest).replace("/", "-")
        (folder / room).mkdir(parents=True, exist_ok=True)
        members.sort(key=line_of)
        text = "\n\n".join(page_of(pages, header, compounds, members)) + "\n"
        (folder / room / f"{name}.md").write_text(text, encoding="utf-8")
        rooms.setdefault(room, []).append(name)
    for room, names in rooms.items():
        listed = "\n".join(f"{room}/{name}" for name in names)
        lower = ", ".join(f"[{other}/]({other}.md)" for other in included_by(room, rooms))
        (folder / f"{room}.md").write_text(
            f"# {room}/\n\n{ROOMS[room][1][0].upper()}{ROOMS[room][1][1:]}.\n\nStep {STEPS[room]} of [the staircase](../docs/design.md#the-staircase)."
            f"{' Its headers include those of ' + lower + '.' if lower else ''}\n\n"
            f"```{{toctree}}\n:maxdepth: 2\n\n{listed}\n```\n", encoding="utf-8")
    return "\n".join(sorted(rooms, key=lambda room: (STEPS[room], room)))


INTRODUCTION = """# Reference of the headers

A page for each public header, in the order of the [rooms](../docs/design.md#the-staircase), from the comments in the
headers. [The main classes](../docs/reference.md) has their members at a glance, [Operations](../docs/ops.md) lists all
operations. Declarations are shown without `[[nodiscard]]`, and without a last parameter `std::source_location`, whose
default is the line of the call.

```{toctree}
:maxdepth: 2

"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most-undocumented", type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as xml:
        warnings = run_doxygen(xml)
        pages = Pages(Path(xml) / "xml")
        options.folder.mkdir(parents=True, exist_ok=True)
        write(options.folder, pages)  # finds the anchors
        pages.linked, pages.written, pages.total = pages.written, set(), 0
        order = write(options.folder, pages)
    (options.folder / "index.md").write_text(f"{INTRODUCTION}{order}\n```\n", encoding="utf-8")
    missing = sorted(pages.missing)
    (options.folder / "undocumented.txt").write_text("".join(f"{line}\n" for line in missing), encoding="utf-8")
    documented = pages.total - len(missing)
    print(f"reference: {documented} of {pages.total} public members have a docstring, {documented / pages.total:.1%}")
    for line in warnings:
        print(line, file=sys.stderr)
    most = options.most_undocumented
    if most is not None and len(missing) > most:
        print(f"reference: {len(missing)} public members have no docstring, at most {most} may; "
              f"{options.folder / 'undocumented.txt'} lists them", file=sys.stderr)
    elif most is not None and len(missing) < most:
        print(f"reference: only {len(missing)} public members have no docstring; lower --most-undocumented from {most}")
    return 1 if warnings or (most is not None and len(missing) > most) else 0


if __name__ == "__main__":
    sys.exit(main())
