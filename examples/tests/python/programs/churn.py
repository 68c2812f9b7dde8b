"""Functions that are made, called and forgotten: memory of one becomes that of the next.

Number i calls its own partner from a line that only it has, so a name or line of another one is wrong for certain.
"""
import truth

SOURCE = """{blank}
def outer_{i}():
    inner_{i}()

def inner_{i}():
    work_for(0.02, {i} > 0)
"""


def round_of(i):
    namespace = {"work_for": truth.work_for}
    source = SOURCE.format(i=i, blank="\n" * (i % 50))
    exec(compile(source, "<made up %d>" % i, "exec"), namespace)
    namespace["outer_%d" % i]()


i = 0
while True:
    round_of(i)
    i += 1
