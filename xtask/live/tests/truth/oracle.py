# Runs inside gdb, attached to a truth program: prints every stack it sees, root last, each only once.
#
#   stack
#   leaf<TAB>/path/of/file<TAB>0x1150          name, file, virtual address in the file
#   inline<TAB>...                             a function inlined into the next frame
#   ?<TAB><TAB>0x7f0012345678                  no name; no file either: code made at run time
#   <signal><TAB>...                           the frame a signal handler returns through
#   clock 5                                    like stack, on a short way from the chain to the clock and back:
#                                              each part of it of at least 5 frames is as good as the whole
#
# Addresses of callers are one byte before the return address, as a profiler names them.
# ORACLE_STEPS=N: goes on for N single instructions and looks after each of them.
# ORACLE_STOP=f: goes on until f is called, and looks there.
# ORACLE_FRAME_POINTERS="f g": these functions have a frame pointer and no unwind data; gdb would read their first
# instructions instead, and guess.

import os
import sys

import gdb
import gdb.unwinder

sys.path.insert(0, os.environ["ORACLE_PLACES"])
from places import MASK, file_of, place, read_maps


class FramePointers(gdb.unwinder.Unwinder):
    """Code that gdb knows nothing of, but we do: it has a frame pointer."""

    def __init__(self):
        super().__init__("frame pointers")

    def __call__(self, pending):
        pc = int(pending.read_register("rip")) & MASK
        if file_of(pc) != "" and function_of(pc) not in WITH_FRAME_POINTER:
            return None
        base = pending.read_register("rbp").cast(gdb.lookup_type("unsigned long").pointer())
        sp = gdb.Value(int(base) + 16).cast(gdb.lookup_type("unsigned long"))
        identity = FrameId(sp, pending.read_register("rip"))
        caller = pending.create_unwind_info(identity)
        caller.add_saved_register("rip", (base + 1).dereference())
        caller.add_saved_register("rbp", base.dereference())
        caller.add_saved_register("rsp", sp)
        return caller


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


WITH_FRAME_POINTER = os.environ.get("ORACLE_FRAME_POINTERS", "").split()


def function_of(pc):
    return WITH_FRAME_POINTER and gdb.execute("info symbol %#x" % pc, to_string=True).split()[0]


def stack():
    lines, frame, innermost, after_signal = [], gdb.newest_frame(), True, False
    while frame is not None:
        pc = int(frame.pc()) & MASK
        exact = innermost or after_signal
        path, address = place(pc if exact else pc - 1)
        if frame.type() == gdb.SIGTRAMP_FRAME:
            name, after_signal = "<signal>", True
        else:
            name = frame.name() or "?"
        if frame.type() == gdb.INLINE_FRAME:
            name = "inline " + name
        elif frame.type() != gdb.SIGTRAMP_FRAME:
            innermost = after_signal = False
        lines.append("%s\t%s\t%#x" % (name, path, address))
        frame = frame.older()
    return lines


def look(seen, kind="stack"):
    lines = stack()
    found = kind + "\n" + "\n".join(lines)
    if found not in seen:
        seen.add(found)
        print(found, flush=True)
    return len(lines)


def chain():
    """How many frames are below the function that asks for the time. The clock itself may be two of them: libc's calls
    one of the same name, and a thread that was stopped on the way there is met in that one. Where none has that name the
    leaf is it."""
    names = [line.split("\t")[0] for line in reversed(stack())]
    clock = next((at for at, name in enumerate(names) if name.endswith("clock_gettime")), len(names) - 1)
    return clock - 1


def look_at_clock(seen):
    """Follows each thread to the clock and back. A tick of a virtual machine prefers that instruction."""
    gdb.execute("set scheduler-locking step")
    for thread in gdb.selected_inferior().threads():
        stop = gdb.Breakpoint("clock_gettime", internal=True)
        stop.thread = thread.num
        gdb.execute("continue", to_string=True)
        stop.delete()
        least = chain()
        for _ in range(100):
            if look(seen, "clock %d" % least) < least:
                break
            gdb.execute("stepi", to_string=True)


def main():
    gdb.execute("set backtrace past-main on")
    gdb.execute("set backtrace limit 2000")
    read_maps()
    gdb.unwinder.register_unwinder(None, FramePointers(), replace=True)
    seen = set()
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        look(seen)
    if os.environ.get("ORACLE_STOP"):
        stop = gdb.Breakpoint(os.environ["ORACLE_STOP"], internal=True)
        gdb.execute("continue", to_string=True)
        stop.delete()
        look(seen)
    for _ in range(int(os.environ.get("ORACLE_STEPS", "0"))):
        gdb.execute("stepi", to_string=True)
        look(seen)
    look_at_clock(seen)
    gdb.execute("detach", to_string=True)


main()
