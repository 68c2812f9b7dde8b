# -*- coding: utf-8 -*-
"""Threads in known chains of calls, each of which reports its chain and waits there.

Runs under every CPython from 2.7 on. Each thread prints one line:

    IDENT<TAB>NAME<TAB>FILE<TAB>LINE<TAB>NAME<TAB>FILE<TAB>LINE...

innermost frame first; IDENT is pthread_self(), which is the thread pointer on Linux. The innermost frame then waits in
os.read for the end of standard input.
"""
import json
import os
import re
import sys
import threading

NEW = sys.version_info[0] >= 3
lock = threading.Lock()


def report():
    """Prints the caller's chain; the caller then waits on the next line."""
    frame = sys._getframe(1)
    cells = [str(threading.current_thread().ident)]
    innermost = True
    while frame is not None:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        # The innermost waits on the next line.
        cells += [name, code.co_filename, str(frame.f_lineno + innermost)]
        innermost = False
        frame = frame.f_back
    line = "\t".join(cells) + "\n"
    with lock:
        os.write(1, line.encode("utf-8") if NEW else line)


def wait():
    report()
    os.read(0, 1)


class Recursive(object):
    def __init__(self, depth):
        if depth >= 0:
            self.value = self.descend(depth)

    def descend(self, depth):
        if depth == 0:
            return [
                1,
                wait(),
                2,
            ]
        return self.descend(
            depth - 1
        )


def generator():
    yield 1
    # Often enough for the specializing interpreter to inline __init__.
    for depth in [-1] * 100 + [5]:
        yield Recursive(
            depth
        )


def delegating():
    for value in generator():
        yield value


def key(_):
    for value in delegating():
        pass
    return 0


def substitute(match):
    sorted([1], key=key)
    return ""


def regular():
    return re.sub("a", substitute, "a")


def hook(pairs):
    return regular()


def parsed():
    return json.loads('{"a": 1}', object_pairs_hook=hook)


comprehended = lambda: [parsed() for _ in range(1)]

try:
    # The compiler normalizes names outside of ASCII with this module.
    import unicodedata
except ImportError:
    unicodedata = None

if NEW and unicodedata:
    exec(
        compile(
            "def größe():\n    return comprehended()\n\n\n"
            "def 名前():\n\n    return größe(\n    )\n\n"
            "def 𝕌():\n    return 名前()\n" + "def " + "long" * 2000 + "():\n    return 𝕌()\n"
            "start = " + "long" * 2000 + "\n",
            "/nowhere/größe/名前.py",
            "exec",
        )
    )
else:
    start = comprehended

if sys.version_info >= (3, 7):
    try:
        import asyncio
    except ImportError:
        # asyncio needs extension modules, which fail where the program hides the C API.
        asyncio = None
if sys.version_info >= (3, 7) and asyncio:
    exec(
        """

async def inner():
    start()

async def outer():
    await inner()

def run():
    asyncio.run(outer())
"""
    )
else:
    run = start


def far_lines():
    # More lines and more code between two entries of the table than fit into one byte.
    run() if True else [
        0,




























































































































































        1,
    ]


def backwards():
    values = (
        1,
        2,
        far_lines(),
    )
    return values


thread = threading.Thread(target=backwards)
thread.daemon = True
thread.start()
for _ in range(1):
    backwards()
