# -*- coding: utf-8 -*-
"""Names that are not ASCII, and long ones."""
import importlib
import os
import sys
import tempfile

import truth


def éclair():
    привет()


def привет():
    名前()


def 名前():
    𠀀𠀁()


class Überklasse:
    def größe(self):
        of_length(60, "ä")


def 𠀀𠀁():
    Überklasse().größe()


def of_length(count, letter):
    name = letter * count
    namespace = {"go_on": NEXT[count, letter]}
    exec(compile("def %s():\n    go_on()\n" % name, "<%s>" % (letter * count), "exec"), namespace)
    namespace[name]()


def in_foreign_file():
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "модуль_é_𠀀.py"), "w", encoding="utf-8") as file:
        file.write("import truth\n\ndef функция():\n    truth.spin()\n")
    sys.path.insert(0, folder)
    importlib.import_module("модуль_é_𠀀").функция()


NEXT = {
    (60, "ä"): lambda: of_length(100, "n"),
    (100, "n"): lambda: of_length(250, "м"),
    (250, "м"): in_foreign_file,
}

éclair()
