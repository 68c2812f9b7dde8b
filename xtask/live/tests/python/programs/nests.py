"""Calls a function of the program that it runs in, which goes on with another interpreter."""


def outer_nests():
    go_on()


outer_nests()
