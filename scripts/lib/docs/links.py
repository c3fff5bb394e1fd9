"""Finds links of a built site that lead nowhere. Uses the standard library only.

usage: links.py FOLDER    prints one line for each such link; exit status 1 if there is one
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ADDRESSES = {"a": "href", "link": "href", "img": "src", "script": "src", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The anchors of a page, and the addresses that it links to or loads."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes.get("id"), attributes.get("name") if tag == "a" else None}
        address = attributes.get(ADDRESSES.get(tag, ""))
        if address is not None:
            (self.links if tag == "a" else self.loaded).append(address)


def faults(folder):
    """[(page, link, why)] for each link that leads nowhere, and each thing that a page would load from elsewhere."""
    folder = folder.resolve()
    found, known = [], {file.resolve(): Page(file.read_text(encoding="utf-8")) for file in sorted(folder.rglob("*.html"))
                        if file.name != "404.html"}  # for servers; its links begin at the top
    for file, page in known.items():
        for address in page.loaded + page.links:
            why = fault(file, address, address in page.loaded, known, folder)
            if why:
                found.append((file.relative_to(folder), address, why))
    return found


def fault(file, address, is_loaded, known, folder):
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return "is loaded from elsewhere" if is_loaded and parts.scheme != "data" else ""
    if parts.path.startswith("/"):
        return "does not work from disk"
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not target.is_relative_to(folder):
        return "leaves the site"
    if not target.is_file():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and target in known and anchor not in known[target].anchors:
        return "no such anchor"
    return ""


def main():
    found = faults(Path(sys.argv[1]))
    for page, address, why in found:
        print(f"{page}: {address}: {why}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
