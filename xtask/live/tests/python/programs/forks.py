"""Children of a fork that never execute anything: they live shortly, and are gone before anyone asks.

With the argument `stay` there is one, which says its chain and stays.
"""
import os
import sys

import truth

STAYS = "stay" in sys.argv


def child_work():
    truth.work_for(1000 if STAYS else 0.1, not STAYS)


def child():
    child_work()


def nursery():
    pid = os.fork()  # way
    if pid == 0:  # way
        try:  # way
            child()
        finally:
            os._exit(0)  # way
    os.waitpid(pid, 0)  # way


def main():
    while True:
        nursery()


if not STAYS:
    truth.ready()
main()
