"""Threads in chains of different depth, which take turns."""
import threading

import truth

arrived = threading.Semaphore(0)


def down(n):
    if n == 0:
        arrived.release()
        truth.spin_silently()
    else:
        down(n - 1)


class Worker(threading.Thread):
    def run(self):
        down(7)


def target(depth):
    down(depth)


threads = [threading.Thread(target=target, args=(3,)), threading.Thread(target=target, args=(12,)), Worker()]
for thread in threads:
    thread.daemon = True
    thread.start()
for thread in threads:
    arrived.acquire()
truth.spin()
