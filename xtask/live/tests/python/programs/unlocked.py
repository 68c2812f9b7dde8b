"""C code that works without the interpreter's lock: the thread has put its state aside."""
import sys
import threading
import zlib

import truth

# Little enough for the lock to change hands within a second where checksums keep it, as in 2.7.
DATA = bytes(bytearray(4 << 20))


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
