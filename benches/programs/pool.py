"""Keeps two processes of a pool busy, and starts another pool now and then.

    pool.py
"""
import multiprocessing


def collatz(number):
    steps = 0
    while number != 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


def longest(numbers):
    return max(numbers, key=collatz)


def main():
    while True:
        pool = multiprocessing.Pool(2)
        for _ in pool.imap_unordered(longest, (range(at, at + 500) for at in range(1, 100000, 500))):
            pass
        pool.close()
        pool.join()


if __name__ == "__main__":
    main()
