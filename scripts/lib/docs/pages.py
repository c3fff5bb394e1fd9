"""Maps files of the repository to the site, and adapts a page's Markdown.

README.md is the home page, pages of docs/ are at the top, and other Markdown files keep their path. A source that a page links
to has its own page, and a public header is in the C++ reference. Reports and pictures are copied.
"""

import os
import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".cu": "cuda", ".cuh": "cuda", ".py": "python", ".pyi": "python", ".sh": "bash",
             ".cmake": "cmake", ".json": "json", ".yml": "yaml", ".inc": "text"}
LARGEST_SHOWN = 100_000  # bytes of a source page; a larger file is copied
FENCED = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)[^\n]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
# A C++ snippet and, directly below it, the same in Python; before each there may be the comment for the tests.
BOTH = re.compile(r"^(?:<!--[^\n]*-->\n)?```cpp\n(?P<cpp>.*?)^```\n\n?(?:<!--[^\n]*-->\n)?```python\n(?P<python>.*?)^```$",
                  re.MULTILINE | re.DOTALL)


class BrokenLink(Exception):
    """A page links to a file that the repository does not have."""


def documents():
    """The Markdown files that the site begins with; others come in by links to them."""
    return ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(f"docs/{file.name}" for file in sorted((ROOT / "docs").glob("*.md")))]


def page_of(path):
    """The site's page or file for a file or folder of the repository, as a path from the top of the site."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.endswith(".md"):
        return path
    if (ROOT / path).is_dir():
        return f"source/{path}/index.md"
    if is_copied(path):
        return path
    return f"source/{path}.md"


def is_copied(path):
    """True for a picture, a page or a report: the site has the file itself."""
    is_report = path.startswith("results/") and path.endswith((".json", ".csv"))
    return path.endswith((".html", ".png", ".svg")) or is_report or (ROOT / path).stat().st_size > LARGEST_SHOWN


def outside_of_code(text, change):
    """The text with `change` applied to all of it but fenced code."""
    parts, at = [], 0
    for fence in FENCED.finditer(text):
        parts += [change(text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, change(text[at:])])


def targets(path, text):
    """The files and folders of the repository that the Markdown file `path` links to."""
    found = []

    def look(part):
        for link in LINK.finditer(part):
            if "://" not in link[1] and not link[1].startswith("mailto:"):
                target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link[1]))
                if not (ROOT / target).exists():
                    raise BrokenLink(f"{path} links to {link[1]}, which does not exist")
                found.append(target)
        return part

    outside_of_code(text, look)
    return found


def rewritten(path, text, headers):
    """The Markdown of `path` with links to pages of the site. `headers`: the place of each header in the C++ reference."""
    here = posixpath.dirname(page_of(path))

    def replace(link):
        if "://" in link[1] or link[1].startswith("mailto:"):
            return link[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link[1]))
        place = headers.get(target) or page_of(target) + (link[2] or "")
        return f"]({posixpath.relpath(place, here or '.')})"

    return outside_of_code(text, lambda part: LINK.sub(replace, part))


def with_tabs(text):
    """A C++ snippet directly followed by a Python snippet becomes two tabs."""
    def tabs(match):
        return "\n\n".join(f'=== "{name}"\n\n' + indented(f"```{language}\n{match[language]}```")
                           for name, language in (("C++", "cpp"), ("Python", "python")))

    return BOTH.sub(tabs, text)


def indented(text):
    return "".join(f"    {line}" if line.strip() else line for line in text.splitlines(keepends=True))


def language_of(path, text):
    if path.endswith("CMakeLists.txt"):
        return "cmake"
    first = text.split("\n", 1)[0]
    if first.startswith("#!"):
        return "python" if "python" in first else "bash"
    return LANGUAGES.get(Path(path).suffix, "text")


def source_page(path, text, reference=None):
    """The page that shows a file. `reference`: its place in the C++ reference."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", text))])
    link = ""
    if reference:
        link = f"[Reference]({posixpath.relpath(reference, posixpath.dirname(page_of(path)))})\n\n"
    if not text.endswith("\n"):
        text += "\n"
    return f"---\nsearch: {{exclude: true}}\n---\n# {path}\n\n{link}{fence}{language_of(path, text)}\n{text}{fence}\n"


def files_below(folder):
    """All files below a folder of the repository, as paths from the root, without caches and hidden files."""
    for where, folders, names in os.walk(ROOT / folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__" and not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield str(Path(where, name).relative_to(ROOT))


def folder_page(folder):
    """The list of a folder's files; code has links, reports have their size."""
    lines = []
    for path in files_below(folder):
        name = posixpath.relpath(path, folder)
        if is_code(path):
            lines.append(f"- [{name}]({posixpath.relpath(page_of(path), posixpath.dirname(page_of(folder)))})")
        else:
            lines.append(f"- {name} ({(ROOT / path).stat().st_size:,} bytes)")
    return f"---\nsearch: {{exclude: true}}\n---\n# {folder}/\n\n" + "\n".join(lines) + "\n"


def is_code(path):
    """True for the files of a folder that get a page because the folder is linked."""
    return not is_copied(path) and (path.endswith((".md", "CMakeLists.txt")) or Path(path).suffix in LANGUAGES)


def generated_pages(own, headers):
    """The files that mkdocs does not find in docs/: {place on the site: text, or the file to copy}. It begins with the
    Markdown files
    `own` ({path: text}) and the headers, and follows their links."""
    found, waiting = {}, [*own, *headers]
    while waiting:
        path = waiting.pop()
        place = page_of(path)
        if place in found or path.startswith("docs/") and path not in own:
            continue
        if (ROOT / path).is_dir():
            found[place] = folder_page(path)
            waiting += [file for file in files_below(path) if is_code(file)]
        elif path.endswith(".md"):
            text = own.get(path) or (ROOT / path).read_text()
            found[place] = text
            waiting += targets(path, text)
        elif is_copied(path):
            found[place] = ROOT / path
        else:
            found[place] = source_page(path, (ROOT / path).read_text(), headers.get(path))
    return {place: what for place, what in found.items() if not (ROOT / "docs" / place).exists()}
