"""What every workload shares: it says which chain it is in, works there, and always ends.

What it says of a chain is Python's own word, `sys._getframe`, leaf first:

    chain<TAB>process id<TAB>thread id
    frame<TAB>line<TAB>function<TAB>file
    ...
    end

`ready` follows when all chains are there. Comments say what the judge can't see from there. They stand at the line
that they are about:

    # spin                      a line that may be the leaf's
    # spin builtin_sum          so may this, and only this calls this function of the interpreter
    # way                       a line that may be the last one, of a program that calls and returns all the time
    # through C                 what is called here is called by C code, not by the evaluation loop itself
    # through C before 3.12     up to that version
"""
import os
import signal
import sys
import time

NUMBERS = list(range(20000))

signal.alarm(200)


def thread_id():
    return int(os.readlink("/proc/thread-self").split("/")[-1])


def write(text):
    text = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    while text:
        text = text[os.write(1, text):]


def say(frame):
    lines = ["chain\t%d\t%d" % (os.getpid(), thread_id())]
    while frame is not None:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        lines.append("frame\t%d\t%s\t%s" % (frame.f_lineno, name, code.co_filename))
        frame = frame.f_back
    write("\n".join(lines) + "\nend\n")


def ready():
    write("ready\n")


def spin():
    """Works for ever, in the last chain to come up."""
    work(True)


def spin_silently():
    """Works for ever, while others are still to come."""
    work(False)


def work(is_last):
    say(sys._getframe())
    if is_last:
        ready()
    n = 0
    while True:  # spin
        for i in range(2000):  # spin
            n = (n * 3 + i) & 65535  # spin
        sum(NUMBERS)  # spin builtin_sum


def work_for(seconds, is_said=True):
    if not is_said:  # spin
        say(sys._getframe())
        ready()
    end = time.time() + seconds  # spin
    while time.time() < end:  # spin
        for i in range(100):  # spin
            abs(i)  # spin
