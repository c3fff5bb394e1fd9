"""Draws charts for tests: a child for each request, of one process that has loaded Altair, which takes a second.

A request is a line of JSON: the words, the folder, the files of the two standard streams, and whether charts are held
against Vega-Lite's schema. The answer is the status."""

import json
import os
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2] / "scripts/lib")

from charts import page, render  # noqa: E402, F401 (what main() would load at each start)
from charts.command import kinds, main  # noqa: E402

kinds()
for line in sys.stdin:
    words, folder, out, messages, validates = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(folder)
        render.validates = validates
        for stream, name in ((1, out), (2, messages)):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        status = 70
        try:
            status = main(words)
        except SystemExit as error:
            status = error.code or 0
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
