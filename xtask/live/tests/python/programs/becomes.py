"""Imports the module that its argument names, which works; then becomes the next program of a list in the environment."""
import os
import sys

__import__(sys.argv[1])
if "NEXT" in os.environ:
    first, _, rest = os.environ["NEXT"].partition("\n")
    os.environ["NEXT"] = rest + "\n" + first
    os.execv(first.split(" ")[0], first.split(" "))
