# Five threads: in C code called from Python, called from C code; in a lock; asleep; and one that only counts.
import re
import threading
import time

lock = threading.Lock()


def compare(_):
    return waits()


def waits():
    with lock:
        return 0


def sorts():
    sorted([3, 1, 2], key=compare)


def substitutes():
    re.sub("b", lambda _: sorts() or "c", "abc")


def counts():
    while True:
        sum(range(1000))


lock.acquire()
for target in [sorts, substitutes, counts, lambda: time.sleep(1000)]:
    threading.Thread(target=target, daemon=True).start()
time.sleep(0.3)
print("ready", flush=True)
counts()
