"""Processes that multiprocessing forks."""
import multiprocessing

import truth


def leaf():
    truth.spin_silently()


def target(n):
    if n == 0:
        leaf()
    else:
        target(n - 1)


if __name__ == "__main__":
    context = multiprocessing.get_context("fork") if hasattr(multiprocessing, "get_context") else multiprocessing
    children = [context.Process(target=target, args=(depth,)) for depth in (5,)]
    for child in children:
        child.daemon = True
        child.start()
    truth.spin()
