"""Functions that share the time unevenly: what two profilers are compared on."""
import json
import re

import truth


def arithmetic(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total


class Shapes(object):
    def areas(self, n):
        return [self.area(i) for i in range(n)]

    def area(self, i):
        return i * 3.14 * i


def texts(n):
    return "".join(str(i) for i in range(n))


def encoded(n):
    return json.dumps([{"key": i} for i in range(n)])


def replaced(n):
    return re.sub("[0-9]", lambda match: match.group() * 2, "a1" * n)


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def once():
    arithmetic(4000)
    Shapes().areas(1000)
    texts(1000)
    encoded(500)
    replaced(300)
    fibonacci(14)


truth.ready()
while True:
    once()
