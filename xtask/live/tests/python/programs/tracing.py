"""A profile function of Python's own is called between a call and its callee."""
import sys

import truth


def inner():  # through C
    pass  # through C


def watch(frame, event, argument):
    if event == "call" and frame.f_code is inner.__code__:
        truth.spin()


def outer():
    inner()


sys.setprofile(watch)
outer()
