"""The plugin of mkdocs that adds the generated pages, and changes links and snippets of the others."""

import posixpath
import re

import cpp_reference
import pages
import python_reference
from mkdocs.plugins import BasePlugin
from mkdocs.structure.files import File

ASSETS = ("iframe-worker.js", "site.css")


class SitePlugin(BasePlugin):
    """`doxygen`: the program, or None for a site without the C++ reference."""

    def __init__(self, doxygen):
        super().__init__()
        self.cpp = cpp_reference.make(doxygen) if doxygen else cpp_reference.NONE
        self.python = python_reference.make(pages.ROOT / "python")
        own = {path: (pages.ROOT / path).read_text() for path in pages.documents()}
        self.generated = pages.generated_pages(own, self.cpp.headers)
        # The file of the repository that a page shows. Other Markdown files than `own` keep their path.
        self.repository = {place: place for place in self.generated if not place.startswith("source/")}
        self.repository |= {pages.page_of(path): path for path in own}

    def on_config(self, config):
        config.nav = self.filled(config.nav)
        return config

    def filled(self, nav):
        """The navigation with the generated pages instead of the folders that stand for them. Empty parts are left out."""
        folders = {"cpp/": self.cpp.navigation, "python/": list(self.python)}
        result = []
        for entry in nav:
            if isinstance(entry, str):
                result.append(entry)
                continue
            ((title, value),) = entry.items()
            value = self.filled(value) if isinstance(value, list) else folders.get(value, value)
            if value:
                result.append({title: value})
        return result

    def on_files(self, files, *, config):
        for place, what in {**self.generated, **self.cpp.pages, **self.python}.items():
            given = {"content": what} if isinstance(what, str) else {"abs_src_path": str(what)}
            files.append(File.generated(config, place, **given))
        for name in ASSETS:
            files.append(File.generated(config, f"assets/{name}", abs_src_path=str(pages.ROOT / "scripts/lib/docs" / name)))
        return files

    def on_page_markdown(self, markdown, *, page, **_):
        path = self.repository.get(page.file.src_uri)
        if path is None:
            return markdown
        return pages.with_tabs(pages.rewritten(path, markdown, self.cpp.headers))

    def on_page_content(self, html, *, page, **_):
        """Docstrings name pages of docs/ by their path; on the site these are links."""
        if page.file.src_uri not in self.python:
            return html
        top = posixpath.relpath(".", posixpath.dirname(page.file.src_uri))
        return re.sub(r"(?<![\w/\"])docs/([\w-]+)\.md", rf'<a href="{top}/\1.html">\g<0></a>', html)
