"""`python scripts/lib/charts ...`: what scripts/charts starts."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # not the folder of this file, and never the user's

from charts.command import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
