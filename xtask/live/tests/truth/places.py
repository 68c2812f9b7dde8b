# For scripts inside gdb: which file an address of the program lies in, and where.

import struct

import gdb

MASK = (1 << 64) - 1
maps = []
segments = {}


def read_maps():
    maps.clear()
    with open("/proc/%d/maps" % gdb.selected_inferior().pid) as lines:
        for line in lines:
            parts = line.split(None, 5)
            start, end = (int(x, 16) for x in parts[0].split("-"))
            maps.append((start, end, int(parts[2], 16), parts[5].strip() if len(parts) > 5 else ""))


def map_of(pc):
    for entry in maps:
        if entry[0] <= pc < entry[1]:
            return entry
    return None


def file_of(pc):
    entry = map_of(pc)
    return None if entry is None else entry[3]


def load_segments(path):
    if path not in segments:
        segments[path] = []
        try:
            with open(path, "rb") as file:
                header = file.read(64)
                at, size, count = struct.unpack_from("<Q", header, 32)[0], *struct.unpack_from("<HH", header, 54)
                file.seek(at)
                table = file.read(size * count)
            for i in range(count):
                kind, _, offset, vaddr, _, length = struct.unpack_from("<IIQQQQ", table, i * size)
                if kind == 1:
                    segments[path].append((offset, length, vaddr))
        except OSError:
            pass
    return segments[path]


def place(pc):
    """The file that pc lies in, and its virtual address there."""
    entry = map_of(pc)
    if entry is None or entry[3] == "":
        return "", pc
    start, _, offset, path = entry
    if path == "[vdso]":
        return path, pc - start
    at = pc - start + offset
    for begin, length, vaddr in load_segments(path.removesuffix(" (deleted)")):
        if begin <= at < begin + length:
            return path, vaddr + at - begin
    return path, at
