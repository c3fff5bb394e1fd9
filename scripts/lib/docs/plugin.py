"""The plugin of mkdocs that adds the generated pages, and changes links and snippets of the others."""

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
        others = [place for place in self.generated if place.endswith(".md") and not place.startswith(("source/", "index.md"))]
        self.repository = {pages.page_of(path): path for path in own} | {place: place for place in others}

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
