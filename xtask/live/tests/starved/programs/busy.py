# Says that it works, and works for as many seconds as its argument says.
import sys, time


def inner(count):
    total = 0
    for index in range(count):
        total += index * 3 % 7
    return total


def middle(count):
    return sum(inner(count) for _ in range(50))


def outer():
    return middle(2000)


outer()
print("works", flush=True)
end = time.time() + int(sys.argv[1])
while time.time() < end:
    outer()
