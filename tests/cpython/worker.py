"""Runs one module of CPython's own tests, each class natively and then under Framelift, and reports.

A process of its own, since a test may crash it or never end; what it finds out goes, line by line, into the
file that its caller reads. `python worker.py test.test_list interpreted report.jsonl` runs all of it.
"""

from __future__ import annotations

import fnmatch
import gc
import itertools
import json
import logging
import signal
import sys
import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from known import REPEATS

Asynchronous = unittest.IsolatedAsyncioTestCase
Method = Callable[[], Any]
CPU_SECONDS = 15
"""How much a single test may take: then the timer's signal ends the process."""


# How a test method is run


def natively(method: Method) -> None:
    method()


def interpreted() -> Callable[[Method], None]:
    """By the interpreter, with no tensors and nothing outside: every frame that the test enters."""
    from framelift.interpreter.plain import interpret

    return lambda method: interpret(method)


def captured() -> Callable[[Method], None]:
    """Within a compiled function, between two tensor operations: traced, guarded, broken, replayed."""
    import torch
    import torch.export._trace  # or torch would do it later, where a test has put other modules in place

    import framelift

    logging.getLogger("framelift").propagate = False  # what it says of breaks is not what the program logs
    logging.getLogger("framelift").addHandler(logging.NullHandler())

    def around(x: torch.Tensor, method: Method) -> torch.Tensor:
        y = x + 1
        method()
        return y * 2

    def run(method: Method) -> None:
        framelift.reset()
        compiled = framelift.compile(around, backend="eager")
        assert compiled(torch.ones(2), method).tolist() == [4.0, 4.0]

    return run


MODES = {"interpreted": interpreted, "captured": captured}


# What became of a test


class Outcomes(unittest.TestResult):
    """Test -> "passed", "skipped", or what went wrong. A pass that is `final` is reported at once."""

    def __init__(self, report: Callable[..., None], final: bool) -> None:
        super().__init__()
        self.of: dict[str, str] = {}
        self.report = report
        self.final = final

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self.of[name_of(test)] = "passed"
        self.report(started=name_of(test))
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)

    def stopTest(self, test: Any) -> None:
        super().stopTest(test)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if self.final and self.of[name_of(test)] == "passed":
            self.report(test=name_of(test), outcome="passed")

    def addFailure(self, test: Any, err: Any) -> None:
        self.of[name_of(test)] = in_a_line(err)

    addError = addFailure  # noqa: N815

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.of[name_of(test)] = in_a_line(err)

    def addSkip(self, test: Any, reason: str) -> None:
        self.of[name_of(test)] = "skipped"


def name_of(test: Any) -> str:
    """The class and method, or what stands in for them where a fixture failed or a doctest is meant."""
    return test.id().removeprefix(f"{type(test).__module__}.")


def in_a_line(err: Any) -> str:
    return f"{err[0].__name__}: {' '.join(str(err[1]).split())}"[:300]


def run(tests: list[Any], call: Callable[[Method], None], report: Callable[..., None]) -> dict[str, str]:
    outcomes = Outcomes(report, final=call is not natively)
    plain, within_loop = unittest.TestCase._callTestMethod, Asynchronous._callTestMethod
    unittest.TestCase._callTestMethod = lambda self, method: call(method)
    Asynchronous._callTestMethod = lambda self, method: call(lambda: within_loop(self, method))
    try:
        unittest.TestSuite(map(fresh, tests)).run(outcomes)
    finally:
        unittest.TestCase._callTestMethod = plain
        Asynchronous._callTestMethod = within_loop
        gc.collect()
    return outcomes.of


def fresh(test: Any) -> Any:
    """A test that can be run, which those with a loop of their own can be only once."""
    return type(test)(test._testMethodName) if isinstance(test, Asynchronous) else test


# The module


def leaves(suite: Any) -> Iterator[Any]:
    if isinstance(suite, unittest.TestSuite):
        for part in suite:
            yield from leaves(part)
    else:
        yield suite


def is_slow(module: str, test: Any, patterns: list[str]) -> bool:
    name = f"{module.removeprefix('test.')}::{name_of(test)}"
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def main(module: str, mode: str, path: str, *left_out: str) -> None:
    """`left_out` are tests that ended the process before or are done already, and `module::test`, with
    `*` for any, those that are not tried since they are slow."""
    warnings.simplefilter("ignore")
    slow = [pattern for pattern in left_out if "::" in pattern]
    repeats = REPEATS.get(module.removeprefix("test."), "")
    with open(path, "a", buffering=1) as file:

        def report(**line: str) -> None:
            file.write(json.dumps(line) + "\n")

        call = MODES[mode]()
        tests = list(leaves(unittest.defaultTestLoader.loadTestsFromName(module)))
        for cls, group in itertools.groupby(tests, type):
            if cls.__name__ in left_out or fnmatch.fnmatchcase(cls.__name__, repeats):
                continue
            some = [test for test in group if name_of(test) not in left_out]
            native = run(some, natively, report)
            good = [test for test in some if native.get(name_of(test)) == "passed"]
            fast = [test for test in good if not is_slow(module, test, slow)]
            found = run(fast, call, report)
            wrong = [test for test in fast if found.get(name_of(test)) != "passed"]
            again = run(wrong, natively, report)
            for name in [name_of(test) for test in good if found.get(name_of(test)) != "passed"]:
                once = name in again and again[name] != "passed"  # not even natively twice
                report(test=name, outcome="once" if once else found.get(name, "not run"))
        report(finished=module)


if __name__ == "__main__":
    main(*sys.argv[1:])
