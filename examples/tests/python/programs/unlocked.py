"""C code that works without the interpreter's lock: the thread has put its state aside."""
import sys
import threading
import zlib

import truth

DATA = bytes(bytearray(64 << 20))


def checksum():
    truth.say(sys._getframe())
    if threading.current_thread().name == "MainThread":
        truth.ready()
    while True:  # spin
        zlib.crc32(DATA)  # spin crc32


def outer():
    checksum()


thread = threading.Thread(target=outer)
thread.daemon = True
thread.start()
outer()
