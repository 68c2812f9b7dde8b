"""Functions that C code calls back, each alone and all in one tower."""
import ctypes
import functools
import json
import re
import sys

import truth


def go_on(steps):
    if steps:
        STEPS[steps[0]](steps[1:])
    else:
        truth.spin()


def by_sorted(rest):
    def key(_):
        go_on(rest)

    sorted([1], key=key)  # through C


def by_sort_of_objects(rest):
    class Item(object):
        def __lt__(self, other):
            go_on(rest)

    [Item(), Item()].sort()  # through C


def by_map(rest):
    def each(_):
        go_on(rest)

    list(map(each, [1]))  # through C


def by_filter(rest):
    def keep(_):
        go_on(rest)

    list(filter(keep, [1]))  # through C


def by_reduce(rest):
    step = lambda a, b: go_on(rest)
    functools.reduce(step, [1, 2])  # through C


def by_min(rest):
    key = lambda _: go_on(rest)
    min([1, 2], key=key)  # through C


def by_partial(rest):
    functools.partial(go_on, rest)()  # through C


def by_regex(rest):
    def replace(match):
        go_on(rest)
        return ""

    re.sub("b", replace, "abc")


def by_json(rest):
    def default(_):
        go_on(rest)

    json.dumps([{"key": object()}], default=default)


def by_json_reader(rest):
    def hook(_):
        go_on(rest)

    json.loads('[{"key": 1}]', object_hook=hook)


def by_call(rest):
    class Callable(object):
        def __call__(self):
            go_on(rest)

    Callable()()  # through C


def by_attribute(rest):
    class Lazy(object):
        def __getattr__(self, name):
            go_on(rest)

    Lazy().missing  # through C


def by_property(rest):
    class Lazy(object):
        @property
        def value(self):
            go_on(rest)

    Lazy().value  # through C


def by_item(rest):
    class Lazy(object):
        def __getitem__(self, key):
            go_on(rest)

    Lazy()[1]  # through C


def by_operator(rest):
    class Number(object):
        def __add__(self, other):
            go_on(rest)

    Number() + 1  # through C


def by_initializer(rest):
    class Thing(object):
        def __init__(self):
            go_on(rest)

    Thing()  # through C


def by_finalizer(rest):
    class Thing(object):
        def __del__(self):
            go_on(rest)

    thing = Thing()
    del thing  # through C


def by_metaclass(rest):
    class Meta(type):
        def __new__(meta, name, bases, members):
            go_on(rest)

    Meta("Made", (), {})  # through C


def by_eval(rest):
    eval("go_on(rest)")  # through C


def by_code(rest):
    exec(compile("\n\ngo_on(rest)\n", "<made up>", "exec"), globals(), {"rest": rest})  # through C


def by_join(rest):
    parts = (go_on(rest) for _ in [1])
    "".join(parts)  # through C


def by_foreign_code(rest):
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda a, b: go_on(rest) or 0)
    array = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(array, 2, ctypes.sizeof(ctypes.c_int), compare)  # through C


STEPS = {name[3:]: step for name, step in list(globals().items()) if name.startswith("by_")}

go_on(sys.argv[1:])
