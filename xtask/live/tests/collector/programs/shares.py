"""Three quarters of the time in one function, a quarter in another."""


def spin(count):
    total = 0
    for number in range(count):
        total += number * number
    return total


def much():
    return spin(30000)


def little():
    return spin(10000)


def main():
    print("ready", flush=True)
    while True:
        much()
        little()


main()
