"""Questions to the interpreter and the system, warnings, logging, threads, time, chance."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import gc
import io
import logging
import os
import random
import signal
import sys
import threading
import time
import warnings
import weakref

import torch

from conformance_programs import error_of, program

QUIET = logging.getLogger("conformance.quiet")
QUIET.setLevel(logging.ERROR)
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
LOUD = logging.getLogger("conformance.loud")
LOUD.setLevel(logging.DEBUG)
LOUD.addHandler(logging.NullHandler())
LOUD.propagate = False
CHANGING = logging.getLogger("conformance.changing")
PARENT, CHILD = logging.getLogger("conformance.parent"), logging.getLogger("conformance.parent.child")
VARIABLE = contextvars.ContextVar("VARIABLE", default=2)
LOCAL = threading.local()
LOCAL.value = 3


class _Deprecated(UserWarning):
    pass


def _environment(n):
    os.environ["CONFORMANCE"] = str(n)


# The interpreter


@program
def the_version_of_python(x):
    if sys.version_info >= (3, 8) and sys.version_info.major == 3:
        return x + 1
    return x


@program
def sizes_of_numbers(x):
    return sys.maxsize > 2**32, sys.float_info.epsilon, sys.byteorder, sys.int_info.bits_per_digit > 0, x + 1


@program
def flags_and_platform(x):
    return sys.flags.optimize, sys.platform, os.name, sys.implementation.name, x + 1


@program
def the_arguments_of_the_program(x):
    return len(sys.argv) >= 0, isinstance(sys.argv, list), x + 1


@program
def the_path_of_modules(x):
    return isinstance(sys.path, list), len(sys.path) > 0, x + 1


@program
def the_modules(x):
    return "torch" in sys.modules, sys.modules["torch"] is torch, "no such" in sys.modules, x + 1


@program
def the_recursion_limit(x):
    y = x + 1
    return sys.getrecursionlimit() > 10, y


@program(breaks="unknown native function")
def the_size_of_an_object(x):
    y = x + 1
    return sys.getsizeof([]) > 0, y


@program(breaks="unknown native function")
def the_references_to_an_object(x):
    y = x + 1
    return sys.getrefcount([]) > 0, y


@program
def the_handled_exception(x):
    try:
        raise ValueError("a")
    except ValueError:
        return sys.exc_info()[0], sys.exc_info()[1].args, x + 1


@program
def interned_text(x):
    return sys.intern("a" + "b") == "ab", x + 1


@program(breaks="opaque object")
def output_by_hand(x):
    y = x + 1
    sys.stdout.write("out\n")
    return y * 2


# The system


@program(then=_environment)
def a_variable_of_the_environment(x):
    return x + int(os.environ.get("CONFORMANCE", "5"))


@program
def a_missing_variable_of_the_environment(x):
    return (
        os.environ.get("CONFORMANCE_NONE"),
        "CONFORMANCE_NONE" in os.environ,
        os.getenv("CONFORMANCE_NONE", "d"),
        x + 1,
    )


@program
def a_missing_variable_raises(x):
    return error_of(lambda: os.environ["CONFORMANCE_NONE"]), x + 1


@program(breaks="run-time effect")
def the_working_directory(x):
    y = x + 1
    return os.path.isabs(os.getcwd()), y


@program
def paths_are_text(x):
    return (
        os.path.join("a", "b"),
        os.path.basename("/a/b.txt"),
        os.path.splitext("b.txt"),
        os.path.dirname("/a/b"),
        os.path.normpath("a/../b"),
        os.sep,
        x + 1,
    )


@program(breaks="run-time effect")
def whether_a_file_exists(x):
    y = x + 1
    return os.path.exists("/no such file"), y


@program(breaks="run-time effect")
def the_process(x):
    y = x + 1
    return os.getpid() > 0, y


@program(breaks="run-time effect")
def how_many_processors(x):
    y = x + 1
    return os.cpu_count() >= 1, y


@program(breaks=("run-time effect", "unknown native function"))
def a_file_is_read(x):
    y = x + 1
    with open(os.devnull) as file:
        return file.read(), y


@program
def text_in_memory(x):
    y = x + 1
    file = io.StringIO()
    file.write("a")
    return file.getvalue(), y


# Warnings


@program
def a_warning(x):
    y = x + 1
    warnings.warn("careful", _Deprecated, stacklevel=1)
    return y * 2


@program
def a_caught_warning(x):
    y = x + 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("inside")
    return y, [str(each.message) for each in caught]


@program
def warnings_as_errors(x):
    y = x + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("bad")
        except UserWarning as error:
            return str(error), y


@program
def a_warning_that_is_not_given(x):
    if x.dim() > 3:
        warnings.warn("too many")
    return x + 1


# Logging


@program
def a_record_that_nobody_wants(x):
    QUIET.debug("shape %s", x.shape)
    QUIET.info("more")
    QUIET.warning("careful")
    return x + 1


@program
def whether_anybody_listens(x):
    return QUIET.isEnabledFor(logging.DEBUG), LOUD.isEnabledFor(logging.DEBUG), x + 1


@program
def the_level_of_a_logger(x):
    return QUIET.level, QUIET.getEffectiveLevel(), QUIET.name, logging.DEBUG, x + 1


@program(then=lambda n: CHANGING.setLevel((logging.INFO, logging.ERROR)[n % 2]))
def the_level_changes_between_calls(x):
    CHANGING.debug("nobody")
    return x + (10 if CHANGING.isEnabledFor(logging.WARNING) else 1), CHANGING.isEnabledFor(logging.ERROR)


@program(then=lambda n: PARENT.setLevel((logging.INFO, logging.CRITICAL)[n % 2]))
def the_level_of_a_parent_changes_between_calls(x):
    return x + (10 if CHILD.isEnabledFor(logging.WARNING) else 1)


@program(breaks="run-time effect")
def a_record_is_written(x):
    y = x + 1
    LOUD.info("shape %s", "s")
    return y * 2


@program
def a_logger_is_asked_for(x):
    y = x + 1
    return logging.getLogger("conformance.quiet") is QUIET, y


@program
def records_of_an_error_that_nobody_wants(x):
    try:
        raise ValueError("a")
    except ValueError:
        QUIET.debug("failed", exc_info=True)
    return x + 1


# Threads and contexts


@program
def a_value_of_this_thread(x):
    return x * LOCAL.value


@program
def a_missing_value_of_this_thread(x):
    return x + getattr(LOCAL, "none", 4), hasattr(LOCAL, "value")


@program(given=lambda: (threading.local(),), then=lambda n, local: setattr(local, "value", n))
def a_value_of_this_thread_changes(x, local):
    return x + getattr(local, "value", 9)


@program
def which_thread_it_is(x):
    return threading.get_ident() == threading.get_ident(), x + 1


@program(breaks="unknown native function")
def the_current_thread(x):
    y = x + 1
    return threading.current_thread() is threading.main_thread(), y


@program(breaks="unknown native function")
def a_lock_is_held(x):
    y = x + 1
    lock = threading.Lock()
    with lock:
        return y * 2, lock.locked()


@program
def a_context_variable(x):
    y = x + 1
    return y * VARIABLE.get()


@program
def a_context_variable_is_set(x):
    y = x + 1
    token = VARIABLE.set(5)
    found = VARIABLE.get()
    VARIABLE.reset(token)
    return y * found, VARIABLE.get()


# Time and chance


@program(breaks="run-time effect")
def the_time(x):
    y = x + 1
    return time.time() > 0, y


@program(breaks="run-time effect")
def how_long_it_takes(x):
    begin = time.perf_counter()
    y = x + 1
    return time.perf_counter() >= begin, y


@program
def a_random_number(x):
    random.seed(3)
    y = x + 1
    return random.random(), random.randint(1, 5), y


@program
def a_random_choice(x):
    random.seed(3)
    y = x + 1
    return random.choice([1, 2, 3]), y


@program
def a_seeded_tensor(x):
    torch.manual_seed(3)
    return torch.rand(3) + x


# The end


@program(breaks="unknown native function")
def something_to_do_at_the_end(x):
    y = x + 1
    atexit.register(int)
    atexit.unregister(int)
    return y * 2


@program(breaks=("value that can't be rebuilt", "attribute that can't be set", "opaque object"))
def a_finaliser_is_registered(x):
    y = x + 1
    kept = type("Kept", (), {})()
    weakref.finalize(kept, int).detach()
    return y


@program(breaks="unknown native function")
def a_signal_handler(x):
    y = x + 1
    return signal.getsignal(signal.SIGINT) is not None, y


@program(breaks="unknown native function")
def what_the_collector_tracks(x):
    y = x + 1
    return gc.is_tracked([]), y


# Contexts of the library


@program
def suppressed_errors(x):
    with contextlib.suppress(KeyError):
        {}["k"]
    return x + 1


@program
def a_null_context(x):
    with contextlib.nullcontext(x) as y:
        return y + 1


@program
def an_exit_stack(x):
    done = []
    with contextlib.ExitStack() as stack:
        stack.callback(done.append, 1)
        stack.enter_context(contextlib.nullcontext())
    return done, x + 1


@program(breaks=("opaque object", "run-time effect"))
def output_is_redirected(x):
    y = x + 1
    held = io.StringIO()
    with contextlib.redirect_stdout(held):
        print("inside")
    return held.getvalue(), y
