"""The page: one HTML file with its style, drawings and script. Its content security policy makes the browser refuse to fetch
or run anything else."""

import base64
import hashlib
from html import escape
from itertools import count
from pathlib import Path

from charts import prose, tables, theme
from charts.render import panel_svg
from charts.words import clean, counted, listed

HERE = Path(__file__).parent


def source_of(text):
    """The name of an inline style or script in the policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def style():
    """The page's style, and each colour of the drawings in light and dark."""
    rules = [f'svg.chart [{name}="{light}"] {{ {name}: light-dark({light}, {dark}); }}'
             for light, dark in theme.DARK.items() for name in ("fill", "stroke")]
    return (HERE / "page.css").read_text(encoding="utf-8") + "\n".join(rules) + "\n"


def paragraph(text, kind=""):
    return f'<p class="{kind}">{escape(text)}</p>' if text else ""


def items(texts, kind="plain"):
    return f'<ul class="{kind}">\n' + "\n".join(f"<li>{escape(text)}</li>" for text in texts) + "\n</ul>"


def folded(summary, content, is_open=False):
    return f"<details{' open' if is_open else ''}><summary>{escape(summary)}</summary>\n{content}\n</details>"


class Page:
    """Joins the parts; drawings are numbered in the order of the page."""

    def __init__(self, machines, figures, missing):
        self.machines, self.figures, self.missing = machines, figures, missing
        self.numbers = count(1)

    def text(self):
        css, script = style(), (HERE / "page.js").read_text(encoding="utf-8")
        policy = f"default-src 'none'; style-src {source_of(css)}; script-src {source_of(script)}; base-uri 'none'; " \
                 "form-action 'none'"
        title = "stbench: " + listed(machine.name for machine in self.machines)
        return "\n".join((
            '<!doctype html>', '<html lang="en">', "<head>", '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">', f"<title>{escape(title)}</title>",
            f"<style>{css}</style>", "</head>", "<body>", self.top(), "<main>", self.headline(), self.contents(),
            *(self.figure(figure) for figure in self.figures), self.caveats(), self.environment(), self.how(),
            "</main>", self.footer(), '<div id="tip" role="status" hidden></div>', f"<script>{script}</script>", "</body>",
            "</html>", ""))

    def top(self):
        programs = listed(dict.fromkeys(clean(report["program"], 60) for machine in self.machines
                                        for report in machine.reports))
        return f'<header class="top"><p>{escape(programs)}</p>' \
               '<button id="theme" type="button" hidden>Dark</button></header>'

    def headline(self):
        names = listed(f"{machine.letter} {machine.name}".strip() for machine in self.machines)
        parts = [f"<h1>{escape(names)}</h1>", *map(self.conclusion, self.machines)]
        if older := [name for machine in self.machines for name in prose.without_conclusion(machine)]:
            parts.append(paragraph(f"{listed(older)}: written before reports held their conclusion; stbench show "
                                   "REPORT prints it.", "about"))
        return "\n".join([*parts, self.key()] if len(self.machines) > 1 else parts)

    @staticmethod
    def conclusion(machine):
        """Of each report, because each process concludes by itself."""
        parts = []
        for name, sentences in prose.conclusions(machine):
            source = name if len(machine.reports) > 1 else ""
            label = ": ".join(filter(None, [machine.letter, source]))
            parts.append(paragraph((label + ": " if label else "") + sentences[0], "conclusion"))
            parts += [paragraph(sentence, "conclusion") for sentence in sentences[1:]]
        return "\n".join(parts)

    def key(self):
        """The letters and dashes of the machines."""
        entries = []
        for position, machine in enumerate(self.machines):
            dash = " ".join(map(str, theme.DASHES[position % len(theme.DASHES)]))
            line = '<svg width="44" height="8" aria-hidden="true"><line x1="0" y1="4" x2="44" y2="4" ' \
                   f'stroke="currentColor" stroke-width="2" stroke-dasharray="{dash}"/></svg>'
            files = listed(clean(name, 60) for name in machine.names)
            entries.append(f"<li>{line}{escape(f'{machine.letter}: {machine.name} ({files})')}</li>")
        return '<ul class="key">\n' + "\n".join(entries) + "\n</ul>"

    def contents(self):
        links = [(figure.name, figure.title) for figure in self.figures]
        links += [("caveats", "Caveats"), ("environment", "Environment"), ("how", "How it was measured")]
        entries = "\n".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title in links)
        return f'<nav aria-label="Contents"><ul>\n{entries}\n</ul></nav>'

    def figure(self, figure):
        is_open = figure is self.figures[0]
        more = "".join(folded(f"The same for {one.fixed}", f'<div class="more">{self.drawing(one)}</div>')
                       for one in figure.more)
        return f'<section id="{figure.name}">\n<h2>{escape(figure.title)}</h2>\n{paragraph(figure.fixed, "fixed")}\n' \
               f'{paragraph(figure.lead, "lead")}\n{self.drawing(figure, is_open)}\n{more}\n</section>'

    def drawing(self, figure, is_open=False):
        panels = "\n".join(f'<div class="panel">{panel_svg(picture, next(self.numbers))}</div>'
                           for picture in figure.pictures)
        kind = "panels narrow" if figure.columns > 2 else "panels"
        numbers = folded(f"The numbers ({counted(len(figure.table.rows), 'row')})",
                         tables.table(figure.table.headings, figure.table.rows), is_open)
        return f'<figure aria-label="{escape(figure.title)}"><div class="{kind}">\n{panels}\n</div>\n{numbers}</figure>'

    def caveats(self):
        parts = ['<section id="caveats">', "<h2>Caveats</h2>"]
        for machine in self.machines:
            if machine.letter:
                parts.append(f"<h3>{escape(f'{machine.letter}: {machine.name}')}</h3>")
            parts += self.caveats_of(machine)
        if self.missing:
            parts.append("<h3>Charts left out</h3>")
            parts.append(items(f"{title}: {why}." for title, why in self.missing))
        return "\n".join([*parts, "</section>"])

    def caveats_of(self, machine):
        parts = [items(prose.warnings_of(machine))] if prose.warnings_of(machine) else []
        for status in ("wrong", "failed"):
            if found := prose.grouped_reasons(machine, status):
                parts.append(f'<p class="bad">{sum(one[1] for one in found)} {status}</p>')
                parts.append(tables.table(["reason", "cases", "for example"], self.reasons(found)))
        number, rows = prose.unstable_rows(machine)
        if rows:
            parts.append(folded(f"{counted(number, 'case')} unstable: the numbers stay, with a doubt",
                                tables.table(["case", "why"], rows)))
        if found := prose.grouped_reasons(machine, "waived"):
            parts.append(folded(f"{counted(sum(one[1] for one in found), 'case')} waived: not measured here",
                                tables.table(["reason", "cases", "for example"], self.reasons(found))))
        return parts

    @staticmethod
    def reasons(found):
        return [[reason, str(number), example] for reason, number, example in found]

    def environment(self):
        headings = ["", *(f"{machine.letter} {machine.name}".strip() for machine in self.machines)]
        parts = ['<section id="environment">', "<h2>Environment</h2>"]
        for machine in self.machines:
            parts.append(tables.table(["report", "program", "started", "arguments", "seed", "cases", "schema"],
                                      tables.runs(machine)))
        parts.append(tables.table(headings, tables.environment(self.machines)))
        return "\n".join([*parts, "</section>"])

    def how(self):
        return f'<section id="how">\n<h2>How it was measured</h2>\n{items(prose.HOW)}\n</section>'

    def footer(self):
        files = listed(clean(name, 60) for machine in self.machines for name in machine.names)
        return f"<footer>Drawn by scripts/charts from {escape(files)}. Nothing was fetched to make or to show this " \
               "page.</footer>"


def write(machines, figures, missing):
    return Page(machines, figures, missing).text()
