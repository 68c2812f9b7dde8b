"""Generators that delegate to generators."""
import truth


def leaf():
    yield 1
    truth.spin()


def middle():
    yield from leaf()  # through C before 3.12


def outer():
    yield from middle()  # through C before 3.12


def sent():
    generator = outer()
    next(generator)
    generator.send(None)  # through C


sent()
