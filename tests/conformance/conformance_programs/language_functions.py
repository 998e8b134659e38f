"""Language reference: function definitions and calls (8.7, 6.3.4)."""

from __future__ import annotations

from conformance_programs import error_of, program


@program
def defaults_are_evaluated_once(x):
    made = []

    def f(y, seen=made):
        seen.append(len(seen))
        return y + len(seen)

    return f(x) + f(x), made


@program
def a_wrong_call_says_what_is_missing(x):
    def f(a, /, b, *, c):
        return a

    return x + 1, error_of(f), error_of(f, 1, 2), error_of(f, 1, 2, 3, c=1), error_of(f, a=1, b=2, c=3)


@program(breaks="run-time effect")
def printing_is_an_effect(x):
    y = x + 1
    print("between")
    return y * 2


@program(given=lambda: ([1, 2], {}))
def arguments_are_shared_by_the_calls(x, numbers, names):
    numbers.append(len(numbers))
    names["n"] = numbers
    return x * len(numbers)
