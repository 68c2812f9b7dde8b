"""A handler that is a Python function runs on top of whatever it has interrupted."""
import signal

import truth


def handler_work():
    truth.spin()


def handler(number, frame):
    handler_work()


def interrupted():
    signal.signal(signal.SIGUSR1, handler)
    signal.signal(signal.SIGVTALRM, handler)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.1)
    while True:  # through C
        pass  # through C


interrupted()
