"""One of two scripts of the same shape: where one is run after the other, the functions may lie at the same places."""
import posix


def inner_blue():
    end = posix.times()[4] + 0.25
    while posix.times()[4] < end:
        for i in range(100):
            abs(i)


def outer_blue():
    inner_blue()


outer_blue()
