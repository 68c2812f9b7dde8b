"""Causes an event of each kind in a known chain of functions.

It prints the chain of each function that causes events, as the interpreter has it, then "ready", waits for a line, works, and prints
"end".
"""
import mmap
import os
import sys
import time

TURNS, PAGES, PAGE = 400, 64, 4096
pages = mmap.mmap(-1, PAGES * PAGE)
null = os.open("/dev/null", os.O_WRONLY)
kept = []


def show():
    frame, names = sys._getframe(1), []
    while frame:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    print(";".join(reversed(names)), flush=True)


def nap(turn):
    show() if turn is None else time.sleep(0.0015)


def allocate(turn):
    if turn is None:
        return show()
    kept.append(bytearray(1000))


def touch(turn):
    if turn is None:
        return show()
    pages[turn % PAGES * PAGE] = 1


def store(turn):
    show() if turn is None else os.write(null, b"x")


def act(turn):
    nap(turn)
    allocate(turn)
    touch(turn)
    store(turn)


def inner(turn):
    if turn is not None and turn % PAGES == 0:
        pages.madvise(mmap.MADV_DONTNEED)
    act(turn)


def outer(turns):
    for turn in turns:
        inner(turn)


outer([None])
print("ready", flush=True)
input()
outer(range(TURNS))
print("end", flush=True)
input()
