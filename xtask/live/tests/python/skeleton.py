# Runs inside gdb: prints the stacks of all threads of the processes in SKELETON_PIDS, leaf first, without what was
# inlined or has no frame any more.
#
#   thread 4711
#   _PyEval_EvalFrameDefault<TAB>libpython3.11.so.1.0<TAB>0x1150      name, file, virtual address in the file
#   ?<TAB>python3.11<TAB>0x4018                                      no name
#
# Addresses of callers are one byte before the return address, as a profiler names them.

import os
import sys

import gdb

sys.path.insert(0, os.environ["SKELETON_PLACES"])
import places


def stack():
    frame, exact = gdb.newest_frame(), True
    while frame is not None:
        pc = int(frame.pc()) & places.MASK
        path, address = places.place(pc if exact else pc - 1)
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            name = "<signal>" if frame.type() == gdb.SIGTRAMP_FRAME else frame.name() or "?"
            print("%s\t%s\t%#x" % (name, path, address))
            exact = frame.type() == gdb.SIGTRAMP_FRAME
        frame = frame.older()


def look(pid):
    gdb.execute("attach %s" % pid, to_string=True)
    places.read_maps()
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        print("thread %d" % thread.ptid[1])
        stack()
    gdb.execute("detach", to_string=True)


gdb.execute("set backtrace past-main on")
gdb.execute("set backtrace limit 20000")
for pid in os.environ["SKELETON_PIDS"].split():
    try:
        look(pid)
    except gdb.error as error:
        print("%s: %s" % (pid, error), file=sys.stderr)
