"""Charts of reports: one page that opens from disk, or pictures. scripts/charts starts it; docs/charts.md documents it.

command.py reads the arguments; machines.py puts the processes of one machine together; slices.py finds what varies;
the modules in figures/ make one kind of figure each, from the two layouts of layout.py; render.py turns them into SVG
and PNG; page.py, tables.py and prose.py write the page. All that a report says is data: it never becomes a field name,
an expression or markup.
"""
