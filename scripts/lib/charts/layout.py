"""The two layouts of all figures: lines over an axis with their names at the end, and rows with their names
in front. Each is one panel; a figure is one or more of them, on the same scales.

Texts of a report reach a chart as values of its data or as plain titles. Field names and expressions are all ours.
"""

from dataclasses import dataclass, field

import altair as alt
from altair.utils.schemapi import disable_debug_mode
from charts import theme
from charts.scales import spread
from reports import shortened

disable_debug_mode()  # a chart is checked once, when it is whole, and not again each part by itself

WIDTH, HEIGHT, ROW = 260, 175, 17  # px: the plot of a panel of lines, and one row of a panel of rows
LONGEST = 34  # letters of a name
LABEL_GAP = 13  # px between the names at the ends of lines
BYTES = " : ".join(f"datum.value >= {2**power} ? format(datum.value / {2**power}, ',~r') + ' {unit}'"
                   for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")))
BYTES += " : format(datum.value, ',~r') + ' B'"


def scale_of(axis, **more):
    kind = {"type": "log", "base": 10 if axis.kind == "log" else 2} if axis.is_log else {"type": "linear"}
    return alt.Scale(domain=[axis.low, axis.high], nice=False, **kind, **more)


def axis_of(axis, **more):
    words = {"labelExpr": BYTES} if axis.kind == "bytes" else {"format": ",~r"}
    return alt.Axis(values=axis.ticks, **words, **more)


@dataclass
class Picture:
    """One panel, ready to be drawn."""

    title: str
    chart: alt.LayerChart
    alt: str  # in words, for who does not see it
    left: int = 0  # letters of the longest text that stands out on the left, and on the right
    right: int = 0

    def padding(self):
        """Room for letters wider than the measured ones: up to 1.3 px each, seen with DejaVu Sans Bold."""
        return {"left": 8 + 1.3 * self.left, "right": 10 + 1.3 * self.right, "top": 6, "bottom": 6}


@dataclass
class Point:
    x: float
    y: float
    low: float = None
    high: float = None
    tip: str = ""
    hollow: bool = False


@dataclass
class Line:
    label: str
    look: theme.Look
    points: list
    dash: list = field(default_factory=lambda: [1, 0])
    band: bool = False  # what is from low to high is an area, instead of whiskers
    size: int = 0  # of its points; 0: by its look


def layer(rows, mark, **encoding):
    """One mark, (kind, properties), per row; hidden from screen readers unless it says otherwise."""
    kind, properties = mark
    return getattr(alt.Chart(alt.Data(values=rows)), f"mark_{kind}")(**{"aria": False, **properties}).encode(**encoding)


def line_panel(title, lines, x, y, words, width=WIDTH):
    """Lines over x with whiskers and names at their ends. `x`, `y`: the axes, `words`: the alternative text."""
    enc_x = alt.X("x:Q", scale=scale_of(x, padding=10), axis=axis_of(x), title=x.title)
    enc_y = alt.Y("y:Q", scale=scale_of(y), axis=axis_of(y), title=y.title)
    layers = []
    for line in sorted(lines, key=lambda line: (not line.band, line.look.width)):
        layers += line_layers(line, enc_x, enc_y)
    lines = [line for line in lines if line.label]
    ends = [HEIGHT * (1 - y.part(line.points[-1].y)) for line in lines]
    for line, place in zip(lines, spread(ends, LABEL_GAP, 0, HEIGHT)):
        layers.append(text([{"t": shortened(line.label, LONGEST)}], line.look.colour, bold=line.look.width > 2,
                           x=alt.value(width + 10), y=alt.value(round(place, 1))))
    chart = alt.layer(*layers).properties(width=width, height=HEIGHT, title=title)
    return Picture(title, chart, words, right=max(min(LONGEST, len(line.label)) for line in lines))


def line_layers(line, enc_x, enc_y):
    colour, rows = line.look.colour, [vars(point) for point in line.points]
    whiskers = [row for row in rows if row["low"] is not None and row["high"] is not None]
    layers = [layer(rows, ("line", {"color": colour, "strokeWidth": line.look.width, "strokeDash": line.dash}),
                    x=enc_x, y=enc_y)]
    if line.band and len(whiskers) > 1:
        layers.insert(0, layer(whiskers, ("area", {"color": colour, "opacity": theme.BAND, "line": False}), x=enc_x,
                               y=on(enc_y, "low"), y2="high:Q"))
    elif whiskers:
        layers.append(layer(whiskers, ("rule", {"color": colour, "strokeWidth": 1, "opacity": 0.7}), x=enc_x,
                            y=on(enc_y, "low"), y2="high:Q"))
    for hollow in (False, True):
        chosen = [row for row in rows if row["hollow"] is hollow]
        if chosen:
            layers.append(points(chosen, line.look, hollow, enc_x, enc_y, line.size))
    return layers


def points(rows, look, hollow, enc_x, enc_y, size=0):
    """Dots with a description; hollow if the number is doubtful."""
    size = size or (44 if look.width > 2 else 30)
    shape = "circle" if hollow and look.shape == "stroke" else look.shape  # a stroke cannot be hollow
    mark = {"shape": shape, "size": size, "stroke": look.colour, "strokeWidth": 1.3, "aria": True,
            "fill": theme.PAPER if hollow else look.colour, "opacity": 1}
    return layer(rows, ("point", mark), x=enc_x, y=enc_y, description="tip:N")


def text(rows, colour, align="left", bold=False, size=theme.TEXT, **encoding):
    mark = {"color": colour, "align": align, "baseline": "middle", "fontSize": size,
            "fontWeight": "bold" if bold else "normal"}
    return layer(rows, ("text", mark), text="t:N", **encoding)


@dataclass
class Row:
    """One row: a heading, or a name with a bar, a dot or many dots."""

    label: str
    colour: str = theme.INK
    look: theme.Look = None  # None: a heading
    value: float = None
    low: float = None
    high: float = None
    text: str = ""  # behind the bar
    tip: str = ""
    hollow: bool = False
    dots: list = field(default_factory=list)  # [(value, tip)], strokes
    marks: list = field(default_factory=list)  # [(value, tip, hollow)], points
    rule: float = None  # a mark across this row, such as the ceiling
    rule_tip: str = ""
    rule_dashed: bool = False  # if it is doubtful
    band: tuple = None  # (low, high) of the rule


def row_panel(title, rows, x, words, width=200, bars=True):
    """Names in front, bars from 0 or dots, values behind."""
    enc_x = alt.X("x:Q", scale=scale_of(x), axis=axis_of(x, grid=True, domain=False, ticks=False), title=x.title)
    enc_y = alt.Y("y:Q", scale=alt.Scale(domain=[len(rows), 0], nice=False), axis=None)
    data = [{"i": i, "y": i + 0.5, "row": row} for i, row in enumerate(rows)]
    layers = [*band_layers(data, enc_x, enc_y), *bar_layers(data, enc_x, enc_y, bars), *dot_layers(data, enc_x, enc_y),
              *mark_layers(data, enc_x, enc_y), *name_layers(data, enc_y), *value_layers(data, enc_x, enc_y, width)]
    chart = alt.layer(*layers).properties(width=width, height=ROW * len(rows), title=title)
    return Picture(title, chart, words, max(min(LONGEST, len(row.label)) for row in rows),
                   max(len(row.text) for row in rows))


def by_look(data, wanted):
    """The rows that `wanted` accepts, grouped by their look."""
    found = {}
    for one in data:
        if wanted(one["row"]):
            found.setdefault((one["row"].look, one["row"].hollow), []).append(one)
    return found.items()


def on(encoding, name):
    """The same axis for another column."""
    other = encoding.copy(deep=False)
    other.shorthand = f"{name}:Q"
    return other


def bar_layers(data, enc_x, enc_y, bars):
    layers = []
    for (look, hollow), chosen in by_look(data, lambda row: row.value is not None):
        rows = [{"x": one["row"].value, "zero": 0, "y": one["y"], "top": one["i"] + 0.16, "bottom": one["i"] + 0.84,
                 "low": one["row"].low, "high": one["row"].high, "tip": one["row"].tip} for one in chosen]
        if bars:
            mark = {"fill": theme.PAPER if hollow else look.colour, "stroke": look.colour, "strokeWidth": 1,
                    "fillOpacity": 1 if hollow else 0.82, "opacity": 1, "aria": True}
            layers.append(layer(rows, ("rect", mark), x=on(enc_x, "zero"), x2="x:Q", y=on(enc_y, "top"), y2="bottom:Q",
                                description="tip:N"))
        else:
            layers.append(points(rows, look, hollow, enc_x, enc_y))
        whiskers = [row for row in rows if row["low"] is not None and row["high"] is not None]
        if whiskers:
            mark = {"color": theme.INK if bars else look.colour, "strokeWidth": 1.2}
            layers.append(layer(whiskers, ("rule", mark), x=on(enc_x, "low"), x2="high:Q", y=enc_y))
    return [*layers, *rule_layers(data, enc_x, enc_y)]


def rule_layers(data, enc_x, enc_y):
    layers = []
    for dashed in (False, True):
        rules = [{"x": one["row"].rule, "top": one["i"], "bottom": one["i"] + 1, "tip": one["row"].rule_tip}
                 for one in data if one["row"].rule is not None and one["row"].rule_dashed is dashed]
        mark = {"color": theme.CEILING, "strokeWidth": 2, "strokeDash": [3, 2] if dashed else [1, 0], "aria": True}
        if rules:
            layers.append(layer(rules, ("rule", mark), x=enc_x, y=on(enc_y, "top"), y2="bottom:Q", description="tip:N"))
    return layers


def band_layers(data, enc_x, enc_y):
    bands = [{"low": one["row"].band[0], "high": one["row"].band[1], "top": one["i"], "bottom": one["i"] + 1}
             for one in data if one["row"].band]
    return [layer(bands, ("rect", {"color": theme.CEILING, "opacity": theme.BAND}), x=on(enc_x, "low"), x2="high:Q",
                  y=on(enc_y, "top"), y2="bottom:Q")] if bands else []


def mark_layers(data, enc_x, enc_y):
    layers = []
    for (look, _), chosen in by_look(data, lambda row: row.marks):
        for hollow in (False, True):
            rows = [{"x": value, "y": one["y"], "tip": tip}
                    for one in chosen for value, tip, is_hollow in one["row"].marks if is_hollow is hollow]
            if rows:
                layers.append(points(rows, look, hollow, enc_x, enc_y))
    return layers


def dot_layers(data, enc_x, enc_y):
    layers = []
    for (look, _), chosen in by_look(data, lambda row: row.dots):
        rows = [{"x": value, "y": one["y"], "tip": tip} for one in chosen for value, tip in one["row"].dots]
        mark = {"color": look.colour, "thickness": 1.2, "size": 11, "orient": "vertical", "opacity": 0.5, "aria": True}
        layers.append(layer(rows, ("tick", mark), x=enc_x, y=enc_y, description="tip:N"))
    return layers


def name_layers(data, enc_y):
    layers = []
    for (look, _), chosen in by_look(data, lambda row: True):
        lower = 0.08 if look is None else 0  # a heading is nearer to what it heads
        rows = [{"t": shortened(one["row"].label, LONGEST), "y": one["y"] + lower} for one in chosen]
        colour, bold = (theme.INK, False) if look is None else (look.colour, look.width > 2)
        layers.append(text(rows, colour, "right", bold, y=enc_y, x=alt.value(-8)))
    return layers


def value_layers(data, enc_x, enc_y, width):
    rows = [{"t": one["row"].text, "y": one["y"]} for one in data if one["row"].text]
    return [text(rows, theme.SOFT, y=enc_y, x=alt.value(width + 8), size=theme.SMALL)] if rows else []
