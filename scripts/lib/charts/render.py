"""Figures as SVG and PNG. Vega-Lite is compiled and drawn here, so the page runs none of it."""

import re
import struct
import zlib
from xml.etree import ElementTree

import altair as alt
import vl_convert
from charts import theme

SVG = "{http://www.w3.org/2000/svg}"
# All that a drawing may hold: no links, no scripts, no styles, no pictures, no foreign markup.
ELEMENTS = {"svg", "g", "path", "line", "rect", "text", "tspan", "defs", "clipPath", "title"}
ATTRIBUTES = {
    "aria-hidden", "aria-label", "aria-roledescription", "class", "clip-path", "cx", "cy", "d", "display", "dx", "dy", "fill",
    "fill-opacity", "font-family", "font-size", "font-style", "font-weight", "height", "id", "opacity",
    "pointer-events", "r", "role", "stroke", "stroke-dasharray", "stroke-dashoffset", "stroke-linecap",
    "stroke-linejoin", "stroke-miterlimit", "stroke-opacity", "stroke-width", "text-anchor", "transform", "version",
    "viewBox", "width", "x", "x1", "x2", "y", "y1", "y2",
}
PADDING = {"left": 14, "right": 26, "top": 10, "bottom": 10}  # of a whole figure
SCALE = 1.5  # of a PNG
# Charts are held against Vega-Lite's schema if this is set. The check takes a quarter of a page's time, so only tests set it.
validates = False


class DrawingError(Exception):
    """A drawing contains something forbidden; the text says what."""


def spec_of(chart, padding, background="transparent"):
    return chart.configure(**{**theme.config(), "background": background, "padding": padding}).to_dict(
        validate=validates)


def checked(svg):
    """The drawing as text, after a check of each element."""
    ElementTree.register_namespace("", SVG[1:-1])
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        name = element.tag.removeprefix(SVG)
        if name not in ELEMENTS:
            raise DrawingError(f"a drawing holds <{name}>")
        if strange := set(element.attrib) - ATTRIBUTES:
            raise DrawingError(f"a drawing holds the attribute {sorted(strange)[0]} of <{name}>")
        for attribute in ("transform", "d", "viewBox"):
            if attribute in element.attrib:
                element.set(attribute, rounded(element.get(attribute)))
    return root


def rounded(numbers):
    """Rounds to two places: invisible, and the same on each machine."""
    return re.sub(r"-?\d+\.\d+(?:e-?\d+)?", lambda match: f"{round(float(match[0]), 2):g}", numbers)


def panel_svg(picture, number):
    """The SVG of one panel for the page; its colours come from the page's style."""
    root = checked(vl_convert.vegalite_to_svg(spec_of(picture.chart, picture.padding())))
    number_ids(root, number)
    for element in root.iter():
        element.attrib.pop("font-family", None)
    width, height = root.get("width"), root.get("height")
    root.attrib = {"class": "chart", "viewBox": root.get("viewBox"), "width": width, "height": height, "role": "img",
                   "aria-label": picture.alt}
    return ElementTree.tostring(root, encoding="unicode")


def number_ids(root, number):
    """Gives each drawing its own names; otherwise one would clip another."""
    for element in root.iter():
        if "id" in element.attrib:
            element.set("id", f"c{number}-{element.get('id')}")
        if "clip-path" in element.attrib:
            element.set("clip-path", element.get("clip-path").replace("url(#", f"url(#c{number}-"))


def whole(figure, machines):
    """All panels of a figure as one drawing, with its title and what it was measured on."""
    rows = [list(figure.pictures[i:i + figure.columns]) for i in range(0, len(figure.pictures), figure.columns)]
    chart = alt.vconcat(*(alt.hconcat(*(picture.chart for picture in row), spacing=24) for row in rows), spacing=30)
    about = [line for line in (figure.fixed, *(machine.caption for machine in machines)) if line]
    title = {"text": figure.title, "subtitle": about, "fontSize": 15, "offset": 18, "subtitlePadding": 5}
    return chart.properties(title=title)


def figure_svg(figure, machines):
    root = checked(vl_convert.vegalite_to_svg(spec_of(whole(figure, machines), PADDING, "white")))
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def figure_png(figure, machines):
    return packed(vl_convert.vegalite_to_png(spec_of(whole(figure, machines), PADDING, "white"), scale=SCALE))


def packed(png):
    """The same picture with zlib's best compression: half the size of vl-convert's file."""
    chunks, place = [], 8
    while place < len(png):
        size, kind = struct.unpack(">I4s", png[place:place + 8])
        chunks.append((kind, png[place + 8:place + 8 + size]))
        place += 12 + size
    pixels = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    chunks = [(kind, data) for kind, data in chunks if kind != b"IDAT"]
    chunks.insert(-1, (b"IDAT", zlib.compress(pixels, 9)))
    return png[:8] + b"".join(struct.pack(">I", len(data)) + kind + data +
                              struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks)
