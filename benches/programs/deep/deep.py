# Runs until it is ended, ten calls deep.
def leaf(seed):
    for _ in range(20000):
        seed = seed * 31 % 1000003
    return seed


def descend(depth, seed):
    if depth == 0:
        while True:
            seed = leaf(seed)
    return descend(depth - 1, seed + 1) + 1


descend(10, 1)
