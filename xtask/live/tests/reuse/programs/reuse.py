# Defines a function, runs it for 25 ms of CPU time and frees it, again and again: reuse.py VARIANT SECONDS.
# Prints for each function: name, file, first line and CPU time in milliseconds.
import gc
import sys
import time

clock = time.clock if sys.version_info < (3, 3) else time.process_time

LOOP = """%(indent)stotal = 0
%(indent)swhile clock() < until:
%(indent)s    for number in range(500):
%(indent)s        total = (total + number * number) %% 1021
"""


def body(indent):
    return LOOP % {"indent": indent}


def functions(index):
    """Functions of the same shape, with names of the same length."""
    name = "f_%03dx" % index
    return "def %s(clock, until):\n%s" % (name, body("    ")), "<string>", name


def modules(index):
    """Code of modules: all have one name."""
    return body(""), "module_%03d.py" % index, None


def lines(index):
    """Functions with one name, in one file, on different lines."""
    return "\n" * index + "def run(clock, until):\n%s" % body("    "), "lines.py", "run"


def files(index):
    """Functions with one name, on one line, in different files with long paths."""
    path = "/srv/application/%03d/lib/python/site-packages/plugins/handlers/base.py" % index
    return "def run(clock, until):\n%s" % body("    "), path, "run"


def lambdas(index):
    """Functions without a name."""
    text = "run = lambda clock, until: [None for _ in iter(lambda: sum(range(500)) and clock() < until, False)]\n"
    return text, "lambda_%03d.py" % index, "run"


def classes(index):
    """Methods of classes that a template makes."""
    text = "class T_%03d(object):\n    def value(clock, until):\n%s\nrun = T_%03d.__dict__['value']\n"
    return text % (index, body("        "), index), "class_%03d" % index, "run"


def step(make, index):
    text, file, name = make(index)
    code = compile(text, file, "exec")
    space = {"clock": clock}
    if name is None:
        start = clock()
        space["until"] = start + 0.025
        eval(code, space)
    else:
        eval(code, space)
        function = space.pop(name)
        code = function.__code__
        start = clock()
        function(clock, start + 0.025)
    used = (clock() - start) * 1000
    # The text is a copy: nothing keeps the names.
    line = "%s\t%s\t%d\t%.2f\n" % (
        getattr(code, "co_qualname", code.co_name), code.co_filename, code.co_firstlineno, used)
    sys.stdout.write(line)


make = globals()[sys.argv[1]]
end = clock() + float(sys.argv[2])
index = 1
while clock() < end:
    step(make, index)
    gc.collect()
    index += 1
sys.stdout.flush()
