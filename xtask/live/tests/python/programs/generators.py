"""Generators that pull on generators: by C code once, and by loops that have run before."""
import truth


def leaf(last):
    for i in range(10):
        if last and i == 9:
            truth.spin()
        yield i


def middle(last):
    for i in leaf(last):  # through C before 3.12, in 3.13t
        yield i


def outer(last):
    for i in middle(last):  # through C before 3.12, in 3.13t
        yield i


def loop(last):
    for _ in outer(last):  # through C before 3.12, in 3.13t
        pass


def total(last):
    lengths = (len(str(loop(last))) for _ in [1])
    return sum(lengths)  # through C


for _ in range(10):
    loop(False)
total(True)
