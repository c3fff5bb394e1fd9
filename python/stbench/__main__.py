"""python -m stbench"""

from stbench._program import main

main()
