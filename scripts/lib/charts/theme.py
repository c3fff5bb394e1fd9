"""Colours, shapes and letters. A method looks the same in every figure: ours warm and strong, LibTorch's cool, peers
violet, ceilings grey; shapes and direct labels tell them apart where colours do not.

An SVG has the colours of the light theme. The page shows them in dark by one rule of CSS for each colour, so every
colour that a figure uses stands in DARK.
"""

from dataclasses import dataclass

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # vl-convert brings it, so that texts measure the same anywhere
SMALL, TEXT = 10, 11  # sizes of letters, px

INK, SOFT, GRID, PAPER = "#1f2430", "#5c6370", "#e4e7ec", "#fefefe"
CEILING = "#6b7280"
BAND = 0.2  # opacity of an area from low to high


@dataclass(frozen=True)
class Look:
    colour: str
    shape: str
    width: float = 1.5


LOOKS = {
    "speedtorch": Look("#c2410c", "circle", 2.75), "hybrid": Look("#8a5a00", "diamond", 2.25),
    "index_select": Look("#0b57a4", "square"), "libtorch": Look("#0b57a4", "square"),
    "advanced": Look("#2c7396", "triangle-up"), "staged": Look("#00716b", "triangle-down"), "copy": Look(CEILING, "stroke"), "stream": Look(CEILING, "stroke"),
    "numpy": Look("#7a3fa0", "diamond"), "torch": Look("#9c4f96", "triangle-right"),
    "cupy": Look("#6a58b8", "triangle-left"),
}
OTHERS = (Look("#8f3a6b", "cross"), Look("#5d6b1f", "triangle-right"), Look("#4a4f9c", "cross"),
          Look("#6d4c3d", "triangle-left"), Look("#2f6f4f", "diamond"))
DARK = {
    INK: "#e6e8ee", SOFT: "#a3abba", GRID: "#2c323d", PAPER: "#171a21", CEILING: "#8d97a5",
    "#c2410c": "#ff8f52", "#8a5a00": "#e5b64a", "#0b57a4": "#72b4ff", "#2c7396": "#9fd0e6", "#00716b": "#4fd1c0",
    "#7a3fa0": "#cf9ff0", "#9c4f96": "#eba2e0", "#6a58b8": "#b3a6ff", "#8f3a6b": "#f29cc6", "#5d6b1f": "#c0d06a",
    "#4a4f9c": "#a3a9ff", "#6d4c3d": "#d3a994", "#2f6f4f": "#7fd3a4",
}
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [1, 3])  # one a machine


class Looks:
    """The look of each method; each unknown one gets its own, in the order of names."""

    def __init__(self, methods):
        unknown = sorted(set(methods) - set(LOOKS))
        self.looks = {**LOOKS, **{method: OTHERS[i % len(OTHERS)] for i, method in enumerate(unknown)}}

    def __getitem__(self, method):
        return self.looks[method]


def config():
    """The settings of each chart: few lines, no frame, room for letters wider than the measured ones."""
    axis = {"domain": False, "ticks": False, "labelColor": SOFT, "titleColor": SOFT, "gridColor": GRID,
            "labelFontSize": SMALL, "titleFontSize": SMALL, "titleFontWeight": "normal", "labelPadding": 6,
            "titlePadding": 8, "labelOverlap": "greedy", "labelSeparation": 8}
    return {"font": FONT, "background": "transparent", "view": {"stroke": None}, "axis": axis,
            "axisX": {"grid": False, "domain": True, "domainColor": SOFT, "ticks": True, "tickColor": SOFT,
                      "tickSize": 4, "labelFlush": False},
            "title": {"color": INK, "fontSize": 12, "fontWeight": "bold", "anchor": "start", "offset": 10,
                      "subtitleColor": SOFT, "subtitleFontSize": SMALL, "frame": "group"},
            "concat": {"spacing": 28}}
