"""Functions made of source text: those written alike are parsed once, and are otherwise functions apart."""

import linecache
import traceback

from framelift.core.written_functions import LONGEST, function_of_text, parsed

BODY = "(x):\n    return x + added\n"


def test_functions_written_alike_have_names_files_and_globals_of_their_own():
    before = parsed.cache_info().hits
    one = function_of_text(f"def one{BODY}", "one", "<one>", {"added": 1})
    other = function_of_text(f"def other{BODY}", "other", "<other>", {"added": 2})
    assert parsed.cache_info().hits > before
    assert (one(1), other(1)) == (2, 3)
    assert (one.__name__, one.__code__.co_filename) == ("one", "<one>")
    assert (other.__qualname__, other.__code__.co_filename) == ("other", "<other>")
    assert one.__code__ is not other.__code__


def test_a_traceback_names_the_file_and_shows_the_line():
    text = f"def failing{BODY}"
    made = function_of_text(text, "failing", "<a failing one>", {})
    linecache.cache["<a failing one>"] = (len(text), None, text.splitlines(True), "<a failing one>")
    try:
        made(1)
    except NameError as error:
        shown = "".join(traceback.format_exception(error))
    del linecache.cache["<a failing one>"]
    assert 'File "<a failing one>", line 2, in failing\n    return x + added' in shown


def test_functions_within_name_the_same_file():
    text = "def outer(x):\n    return (lambda y: x + y)\n"
    for file in ("<first>", "<second>"):
        assert function_of_text(text, "outer", file, {})(1).__code__.co_filename == file


def test_long_texts_are_not_kept():
    text = "def long():\n" + "    x = 1\n" * LONGEST + "    return x\n"
    before = parsed.cache_info().currsize
    assert function_of_text(text, "long", "<long>", {})() == 1
    assert parsed.cache_info().currsize == before
