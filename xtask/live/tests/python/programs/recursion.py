"""One function, as deep as the argument says."""
import sys

import truth


def down(n):
    if n == 0:
        truth.spin()
    else:
        down(n - 1)


sys.setrecursionlimit(10000)
down(int(sys.argv[1]))
