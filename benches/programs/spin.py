"""Burns a CPU at a given depth of calls, for a given number of seconds.

    spin.py DEPTH SECONDS
"""
import sys
import time


def burn():
    total = 0
    for number in range(20000):
        total += number * number
    return total


def descend(depth, deadline):
    if depth > 1:
        return descend(depth - 1, deadline)
    while time.time() < deadline:
        burn()


sys.setrecursionlimit(100000)
sys.stdout.write('ready\n')
sys.stdout.flush()
# The module and the innermost function are frames too.
descend(int(sys.argv[1]) - 2, time.time() + float(sys.argv[2]))
