"""Runs a second interpreter in the main thread, which reports its chain like chains.py and then loops forever.

Up to 3.11 the thread-specific state is still that of the first interpreter then.
"""
import sys

try:
    import _interpreters as interpreters
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        sys.exit("no second interpreter supported")

SECOND = '''
import os
import sys
import _thread


def report():
    frame = sys._getframe(1)
    cells = [str(_thread.get_ident())]
    innermost = True
    while frame is not None:
        code = frame.f_code
        cells += [getattr(code, "co_qualname", code.co_name), code.co_filename, str(frame.f_lineno + innermost)]
        innermost = False
        frame = frame.f_back
    os.write(1, ("\\t".join(cells) + "\\n").encode())


def work():
    report()
    while True: pass


def second():
    work()


second()
'''


def first():
    interpreters.run_string(interpreters.create(), SECOND)


first()
