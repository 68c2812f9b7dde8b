"""Exceptions that are raised deep down and caught above, again and again."""
import truth


class Expected(Exception):
    pass


def thrower(said):
    truth.work_for(0.002, said)
    raise Expected("reason")  # way


def down(n, said):
    if n == 0:  # way
        thrower(said)
    else:
        down(n - 1, said)


def cleaner(said):
    try:  # way
        down(4, said)
    finally:
        len("cleaned")  # way


def catcher(said):
    try:  # way
        cleaner(said)
    except Expected as reason:  # way
        return str(reason)  # way


def loop():
    said = False
    while True:  # way
        catcher(said)
        said = True  # way


loop()
