"""The C++ reference from the public headers: Doxygen reads them, and this writes one Markdown page per folder of headers."""

import posixpath
import re
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pages

# As cmake/Install.cmake installs them.
SETTINGS = """
INPUT = speedtorch
FILE_PATTERNS = *.h
EXCLUDE_PATTERNS = *-inl.h
RECURSIVE = YES
EXTRACT_ALL = YES
HIDE_FRIEND_COMPOUNDS = YES
JAVADOC_AUTOBRIEF = YES
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
CASE_SENSE_NAMES = YES
CLASS_GRAPH = NO
INCLUDE_GRAPH = NO
INCLUDED_BY_GRAPH = NO
QUIET = YES
WARN_IF_INCOMPLETE_DOC = NO
WARN_IF_UNDOCUMENTED = NO
# The first comment of a header is about the file.
INPUT_FILTER = "sed -e '1s|^///|/// @file\\n///|'"
"""
ORDER = ("speedtorch", "speedtorch/tables", "speedtorch/rows", "speedtorch/memory", "speedtorch/files", "speedtorch/optim",
         "speedtorch/contiguous", "speedtorch/infinity", "speedtorch/system", "speedtorch/kernels")
WIDTH = 100  # a longer signature has one parameter per line
NAMESPACE = "speedtorch::"


@dataclass
class Reference:
    pages: dict = field(default_factory=dict)    # page: Markdown
    headers: dict = field(default_factory=dict)  # header: page#anchor
    navigation: list = field(default_factory=list)


NONE = Reference()


def make(doxygen):
    """The reference, with the program `doxygen`."""
    with tempfile.TemporaryDirectory(prefix="doxygen ") as folder:
        settings = Path(folder, "Doxyfile")
        settings.write_text(f'{SETTINGS}OUTPUT_DIRECTORY = "{folder}"\nSTRIP_FROM_PATH = "{pages.ROOT}"\n')
        subprocess.run([doxygen, settings], cwd=pages.ROOT, check=True)
        return Writer(Headers(Path(folder, "xml"))).reference()


def page_of(folder):
    return f"cpp/{folder}.md"


def rank(folder):
    """The place of a folder, or of the one that it is in, among the pages; others come last."""
    known = [place for place, one in enumerate(ORDER) if folder == one or folder.startswith(f"{one}/")]
    return known[-1] if len(known) > 1 or folder == ORDER[0] else len(ORDER)


def text_of(element):
    """All text of an element that may be absent, with single spaces."""
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


class Headers:
    """Doxygen's result: the text of each header, and its classes, functions and types in their order."""

    def __init__(self, folder):
        self.files = {}                    # header: the compound of the file
        self.entries = defaultdict(list)   # header: compounds and members
        self.anchors = {}                  # Doxygen's id: page#anchor
        self.inside = {}                   # id of a class: its public members
        compounds = [ElementTree.parse(file).getroot().find("compounddef") for file in sorted(folder.glob("*.xml"))
                     if file.name not in ("index.xml", "Doxyfile.xml")]
        for compound in compounds:
            self.take(compound)
        for header, entries in self.entries.items():
            entries.sort(key=line_of)
            for entry in entries:
                self.name_anchors(header, entry)

    def take(self, compound):
        kind, name = compound.get("kind"), compound.findtext("compoundname")
        header = compound.find("location").get("file") if compound.find("location") is not None else ""
        if kind == "file":
            self.files[header] = compound
        elif kind == "namespace":
            for member in compound.iter("memberdef"):
                if is_ours(name) and wanted(member):
                    self.entries[member.find("location").get("file")].append(member)
        elif kind in ("class", "struct", "union") and is_ours(name) and compound.get("prot") == "public":
            self.entries[header].append(compound)
            self.inside[compound.get("id")] = sorted(filter(wanted, compound.iter("memberdef")), key=line_of)

    def name_anchors(self, header, entry):
        page = page_of(posixpath.dirname(header))
        is_shown = entry.tag == "compounddef" or is_documented(entry)  # others share a block of declarations
        top = f"{page}#{anchor_of(entry) if is_shown else header_anchor(header)}"
        self.anchors[entry.get("id")] = top
        for member in self.inside.get(entry.get("id"), ()):
            self.anchors[member.get("id")] = f"{page}#{anchor_of(member)}" if is_documented(member) and has_heading(member) else top


def is_ours(name):
    return f"{name}::".startswith(NAMESPACE)


def wanted(member):
    """True for a public member that says something: no destructor, and no function that is merely deleted or defaulted."""
    if member.get("prot") not in (None, "public") or member.get("kind") in ("friend", "define"):
        return False
    if is_documented(member):
        return True
    arguments, name = member.findtext("argsstring") or "", member.findtext("name")
    return not (name.startswith("~") or arguments.endswith(("=delete", "=default")))


def has_heading(member):
    return member.get("kind") != "variable"


def is_documented(entry):
    return bool(text_of(entry.find("briefdescription")) or text_of(entry.find("detaileddescription")))


def line_of(entry):
    return int(entry.find("location").get("line"))


def qualified_name(entry):
    name = entry.findtext("qualifiedname") or entry.findtext("compoundname")
    return name.removeprefix(NAMESPACE)


def anchor_of(entry):
    return re.sub(r"[^\w.-]+", "-", qualified_name(entry).replace("::", ".")).strip("-")


def signature(member):
    """The declaration of a function, type or variable as C++."""
    text = template_of(member)
    kind = member.get("kind")
    if kind == "enum":
        values = ", ".join(value.findtext("name") for value in member.findall("enumvalue"))
        scoped = "class " if member.get("strong") == "yes" else ""
        return f"{text}enum {scoped}{member.findtext('name')} {{ {values} }};"
    type_, name = compact(text_of(member.find("type"))), member.findtext("name")
    if kind == "typedef":
        return f"{text}using {name} = {type_};" if not member.findtext("argsstring") else f"{member.findtext('definition')};"
    words = [word for word, says in (("static", "static"), ("explicit", "explicit"), ("constexpr", "constexpr"))
             if member.get(says) == "yes" and not type_.startswith(word)]
    start = " ".join([*words, *([type_] if type_ else []), name])
    if kind == "variable":
        first = compact(text_of(member.find("initializer")))
        return f"{text}{start}{member.findtext('argsstring') or ''}{' ' + first if first else ''};"
    arguments = compact(member.findtext("argsstring") or "")
    line = f"{text}{start}{arguments};"
    if len(line.split("\n")[-1]) <= WIDTH or not member.findall("param"):
        return line
    ending = arguments[arguments.rindex(")"):]
    inner = ",\n".join(f"    {parameter_of(one)}" for one in member.findall("param"))
    return f"{text}{start}(\n{inner}{ending};"


def template_of(entry):
    parameters = entry.find("templateparamlist")
    if parameters is None:
        return ""
    return "template <" + ", ".join(parameter_of(one) for one in parameters.findall("param")) + ">\n"


def parameter_of(parameter):
    parts = [compact(text_of(parameter.find("type"))), parameter.findtext("declname") or ""]
    default = compact(text_of(parameter.find("defval")))
    text = " ".join(filter(None, parts)) + (parameter.findtext("array") or "")
    return f"{text} = {default}" if default else text


def compact(text):
    """Types as this code writes them: `const at::Tensor& x` and `std::vector<int>`."""
    text = re.sub(r"< +", "<", re.sub(r" +>", ">", text))
    text = re.sub(r" ([&*]+)(?=\w)", r"\1 ", text)
    text = re.sub(r" ([&*]+)(?=[,)>]|$)", r"\1", text)
    return re.sub(r"(?<=\w)=(?=[\w{(\"'-])", " = ", text)


class Writer:
    """Writes the pages."""

    def __init__(self, headers):
        self.headers = headers
        self.places = {header: f"{page_of(posixpath.dirname(header))}#{header_anchor(header)}" for header in headers.files}
        self.page = ""

    def reference(self):
        by_folder = defaultdict(list)
        for header in sorted(self.headers.files):
            by_folder[posixpath.dirname(header)].append(header)
        order = sorted(by_folder, key=lambda folder: (rank(folder), folder))
        result = Reference(headers=self.places, navigation=["cpp/index.md"])
        for folder in order:
            result.pages[page_of(folder)] = self.folder(folder, by_folder[folder])
            result.navigation.append({folder: page_of(folder)})
        result.pages["cpp/index.md"] = self.index(order, by_folder)
        return result

    def index(self, order, by_folder):
        self.page = "cpp/index.md"
        example = (pages.ROOT / "examples/gather_rows.cpp").read_text()
        rows = [f"| [{folder}]({self.way(page_of(folder))}) | " + ", ".join(
            f"[{posixpath.basename(one)}]({self.way(self.places[one])})" for one in by_folder[folder]) + " |"
            for folder in order]
        return ("# C++ reference\n\nAll installed headers, by folder. Names are in the namespace `speedtorch` if nothing else is said. "
                '`#include "speedtorch/speedtorch.h"` brings all but InfinityBatch.\n\n'
                f"```cpp\n{example}```\n\n| folder | headers |\n|---|---|\n" + "\n".join(rows) + "\n")

    def folder(self, folder, headers):
        self.page = page_of(folder)
        rows = [f"| [{posixpath.basename(one)}](#{header_anchor(one)}) | {self.summary(self.headers.files[one])} |" for one in headers]
        parts = [f"# {folder}/\n\n| header | what |\n|---|---|\n" + "\n".join(rows)]
        parts += [self.header(one) for one in headers]
        return "\n\n".join(parts) + "\n"

    def header(self, header):
        source = self.way(f"source/{header}.md")
        parts = [f"## {posixpath.basename(header)} {{ #{header_anchor(header)} }}", f"`#include \"{header}\"` · [source]({source})",
                 self.description(self.headers.files[header])]
        plain = []
        for entry in self.headers.entries[header]:
            if entry.tag == "memberdef" and not is_documented(entry):
                plain.append(entry)
                continue
            parts += [self.declarations(plain), self.compound(entry) if entry.tag == "compounddef" else self.documented([entry], 3)]
            plain = []
        return "\n\n".join(filter(None, [*parts, self.declarations(plain)]))

    def compound(self, entry):
        """A class with its public members."""
        members = self.headers.inside[entry.get("id")]
        bases = ", ".join(f"public {compact(text_of(one))}" for one in entry.findall("basecompoundref"))
        declaration = f"{template_of(entry)}{entry.get('kind')} {qualified_name(entry)}{' : ' + bases if bases else ''};"
        parts = [heading(3, qualified_name(entry), anchor_of(entry)), fenced(declaration), self.description(entry)]
        for kind, group in grouped(members):
            if kind == "fields":
                parts.append(self.fields(group))
            elif kind == "plain":
                parts.append(self.declarations(group))
            else:
                parts.append(self.documented(group, 4))
        return "\n\n".join(filter(None, parts))

    def documented(self, overloads, level):
        """Functions of one name, or a type, below one heading."""
        name = qualified_name(overloads[0]) if level == 3 else overloads[0].findtext("name")
        parts = [heading(level, name + ("()" if overloads[0].get("kind") == "function" else ""), anchor_of(overloads[0]))]
        for one in overloads:
            parts += [fenced(signature(one)), self.description(one), self.values(one)]
        return "\n\n".join(filter(None, parts))

    def values(self, enum):
        if not any(is_documented(value) for value in enum.findall("enumvalue")):
            return ""
        rows = [f"| `{value.findtext('name')}` | {self.brief(value)} |" for value in enum.findall("enumvalue")]
        return "| value | what |\n|---|---|\n" + "\n".join(rows)

    def fields(self, members):
        if not any(map(is_documented, members)):
            return self.declarations(members)
        rows = [f"| `{signature(one).removesuffix(';')}` | {self.brief(one)} |".replace("||", "\\|\\|") for one in members]
        return "| member | what |\n|---|---|\n" + "\n".join(rows)

    def declarations(self, members):
        return fenced("\n".join(map(signature, members))) if members else ""

    def brief(self, entry):
        """The whole description in one line of a table."""
        return one_line(self.description(entry))

    def summary(self, entry):
        """The first sentence in one line of a table."""
        return one_line(self.blocks(entry.find("briefdescription")))

    def description(self, entry):
        parts = [self.blocks(entry.find(name)) for name in ("briefdescription", "detaileddescription") if entry.find(name) is not None]
        return "\n\n".join(filter(None, parts))

    def blocks(self, element):
        return "\n\n".join(filter(None, (self.paragraph(one) for one in element.findall("para"))))

    def paragraph(self, para):
        """A paragraph, which may hold lists, tables and the parts of @param, @throws and @returns."""
        blocks, line = [], [self.text(para.text)]
        for child in para:
            block = self.block(child)
            if block is None:
                line.append(self.inline(child))
            else:
                blocks += ["".join(line), block]
                line = []
            line.append(self.text(child.tail))
        return "\n\n".join(text.strip() for text in [*blocks, "".join(line)] if text.strip())

    def block(self, element):
        if element.tag == "itemizedlist":
            return "\n".join("- " + " ".join(self.blocks(item).split()) for item in element.findall("listitem"))
        if element.tag == "verbatim":
            return f"```text\n{element.text.strip()}\n```"
        if element.tag == "table":
            return self.table(element)
        if element.tag == "simplesect":
            title = {"return": "Returns", "note": "Note:"}.get(element.get("kind"), element.get("kind"))
            return f"**{title}** {self.blocks(element)}"
        if element.tag == "parameterlist":
            return "\n".join(self.parameter(element.get("kind"), one) for one in element.findall("parameteritem"))
        return None

    def parameter(self, kind, item):
        name, text = item.find("parameternamelist/parametername"), self.blocks(item.find("parameterdescription"))
        text = " ".join(text.split())
        if kind != "exception":
            return f"- `{text_of(name)}`: {text}"
        first = text_of(name)
        # `@throws as there` names no class.
        return f"**Throws** {self.inline(name) if first[:1].isupper() or '::' in first else first} {text}\n"

    def table(self, element):
        rows = [[" ".join(self.blocks(entry).split()).replace("|", "\\|") for entry in row.findall("entry")] for row in element.findall("row")]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])

    def inline(self, element):
        if element.tag == "ref":
            place = self.headers.anchors.get(element.get("refid"))
            return f"[{escaped(text_of(element))}]({self.way(place)})" if place else self.text(text_of(element))
        if element.tag == "computeroutput":
            return code(text_of(element))
        if element.tag == "parametername":
            references = element.findall("ref")
            return self.inline(references[0]) if references else code(text_of(element))
        if element.tag in ("ndash", "mdash"):
            return "-"
        mark = {"emphasis": "*", "bold": "**"}.get(element.tag, "")
        inner = self.text(element.text) + "".join(self.inline(child) + self.text(child.tail) for child in element)
        return f"{mark}{inner}{mark}"

    def text(self, text):
        """Text with special characters escaped, and links at names of headers and of pages of docs/."""
        def link(match):
            name = match[0].replace("\\_", "_")
            place = self.places.get(name) or (pages.page_of(name) if name.startswith("docs/") else None)
            return f"[{match[0]}]({self.way(place)})" if place else match[0]

        return re.sub(r"(?:speedtorch/[\w/\\-]+\.h|docs/[\w\\-]+\.md)\b", link, escaped(text))

    def way(self, place):
        """A link from the page that is written to a place on the site."""
        page, _, anchor = place.partition("#")
        if page == self.page and anchor:
            return f"#{anchor}"
        return posixpath.relpath(page, posixpath.dirname(self.page)) + (f"#{anchor}" if anchor else "")


def one_line(text):
    return " ".join(text.replace("|", "\\|").split())


def grouped(members):
    """Consecutive members that are shown together: (kind, members), kind being fields, plain or documented."""
    groups = []
    for member in members:
        kind = "fields" if member.get("kind") == "variable" else "documented" if is_documented(member) else "plain"
        overload = groups and kind == "documented" and groups[-1][1][0].findtext("name") == member.findtext("name")
        if groups and groups[-1][0] == kind and (kind != "documented" or overload):
            groups[-1][1].append(member)
        else:
            groups.append((kind, [member]))
    return groups


def header_anchor(header):
    return posixpath.basename(header).replace(".", "-")


def heading(level, name, anchor):
    return f"{'#' * level} {code(name)} {{ #{anchor} }}"


def fenced(text):
    return f"```cpp\n{text}\n```"


def code(text):
    return f"`{text}`"


def escaped(text):
    """Text with Markdown's special characters escaped."""
    return re.sub(r"([\\`*_\[\]#])", r"\\\1", text or "").replace("<", "&lt;").replace(">", "&gt;")
