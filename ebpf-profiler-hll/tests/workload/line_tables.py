"""Prints the line tables of the standard library's functions, and their lines as the interpreter decodes them.

One line per code object, in cells separated by tabs:

    VERSION  FIRST LINE  TABLE in hex  LENGTH of the code  OFFSET:LINE of each step, separated by spaces; line 0: none
"""
import binascii
import dis
import glob
import os
import sys

VERSION = sys.version_info[:2]


def steps(code):
    if VERSION >= (3, 11):
        # One position per instruction of two bytes; decoded by other code than co_lines.
        return [(2 * index, place[0] or 0) for index, place in enumerate(code.co_positions())]
    if VERSION == (3, 10):
        return [(start, line or 0) for start, _, line in code.co_lines()]
    return list(dis.findlinestarts(code))


def show(code):
    table = code.co_linetable if VERSION >= (3, 10) else code.co_lnotab
    cells = [
        "%d.%d" % VERSION,
        str(code.co_firstlineno),
        binascii.hexlify(table).decode(),
        str(len(code.co_code)),
        " ".join("%d:%d" % step for step in steps(code)),
    ]
    print("\t".join(cells))
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            show(constant)


LONG = "def far(a):\n    return [a," + "\n" * 70000 + "    a, (" + "\n" * 300 + "a)]\n" + "x = [" + "0, " * 5000 + "\n0]\n"

show(compile(LONG, "long", "exec"))
for path in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py"))):
    with open(path, "rb") as source:
        try:
            show(compile(source.read(), path, "exec"))
        except (SyntaxError, UnicodeDecodeError):
            pass
