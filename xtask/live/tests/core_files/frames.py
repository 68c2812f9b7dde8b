# Runs inside gdb with a core file: prints every frame of every thread, leaf first. Left out is what has no frame on
# the stack: inlined functions, functions that called another one as their last deed, address 0 behind the last frame.
#
#   thread 4711
#   7f9524373bd3 wait4
#   5599ed1f53f2

import gdb

gdb.execute("set backtrace past-main on")
gdb.execute("set backtrace past-entry on")
gdb.execute("set backtrace limit unlimited")
for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num):
    thread.switch()
    print("thread", thread.ptid[1])
    try:
        frame = gdb.newest_frame()
        while frame is not None:
            if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME) and frame.pc() != 0:
                print("%x %s" % (frame.pc(), frame.name() or ""))
            frame = frame.older()
    except gdb.error as error:
        print("#", error)
