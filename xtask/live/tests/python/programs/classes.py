"""A deep call through methods, decorators, closures, comprehensions and lambdas."""
import contextlib
import functools

import truth


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)  # through C before 3.12

    return wrapper


def direct(function):
    def wrapper(self):
        return function(self)

    return wrapper


class Base(object):
    def method(self):
        return self.decorated()

    @logged
    def decorated(self):
        return self.of_class()

    @classmethod
    def of_class(cls):
        return cls.of_none(cls)

    @staticmethod
    def of_none(cls):
        return cls().closure()

    def closure(self):
        def inner():
            return self.comprehension()

        return inner()

    def comprehension(self):
        return [one.anonymous() for one in [self]]

    def anonymous(self):
        return (lambda one, two=2: one.directly())(self)

    @direct
    def directly(self):
        return self.many_lines()

    def many_lines(self):
        return self.with_context(
            1,
            2,
        )

    def with_context(
        self,
        one,
        two,
    ):
        with self.context():
            return self.dictionary()

    @contextlib.contextmanager
    def context(self):
        yield self

    def dictionary(self):
        return {key: value.Nested().deep() for key, value in [(1, Derived)]}


class Derived(Base):
    class Nested(object):
        def deep(self):
            try:
                raise ValueError()
            except ValueError:
                return self.finally_there()

        def finally_there(self):
            try:
                pass
            finally:
                truth.spin()

    def method(self):
        return super(Derived, self).method()


Derived().method()
