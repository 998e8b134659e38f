"""The guards are built for the torch that is installed: once, by one process, or the program runs plainly.

The compiler is a script that puts in place what was built before, so that nothing here takes a minute.
`make wheel-test` runs this with an installed wheel, too.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from framelift import _guards
from framelift.native import guards_build

BUILT = str(_guards.__file__)

COMPILER = """#!{python}
import shutil, sys, time
with open({log!r}, "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
time.sleep({seconds})
shutil.copyfile({built!r}, sys.argv[sys.argv.index("-o") + 1])
"""

FAILING = """#!{python}
import sys
sys.exit("guards.cpp:1:1: error: this compiler has had enough")
"""

NOTHING_BESIDE = """
import warnings, pathlib
from framelift.native import guards_build
guards_build.BESIDE = pathlib.Path("nowhere")
"""
"""What setup.py has built is not there, as after the installation of a wheel."""

PROGRAM = (
    NOTHING_BESIDE
    + """
import torch, framelift

def double(x):
    return x * 2

compiled = framelift.compile(double, backend="eager")
assert compiled(torch.ones(2)).tolist() == [2, 2]
print(type(framelift.compile(double)).__name__, len(framelift.entries(compiled)[0].entries))
"""
)

NO_COMPILER = (
    NOTHING_BESIDE
    + """
import framelift

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")

    @framelift.compile
    def double(x):
        framelift.graph_break()
        return x * 2

    @framelift.compile(backend="eager")
    @framelift.disable
    def triple(x):
        return x * 3

    with framelift.set_stance("force_eager"), framelift.install():
        assert double(2) == 4 and triple(2) == 6 and not framelift.is_compiling()
    framelift.reset()
told = [one for one in told if "Framelift" in str(one.message)]  # torch may have to say something too
print(len(told), told[0].category.__name__, told[0].message)
framelift.config.verbose = True
whole = lambda: framelift.compile(double, fullgraph=True)
for asked in (whole, lambda: framelift.explain, lambda: framelift.export):
    try:
        asked()
        print("no error")
    except ImportError as error:
        print(type(error).__name__)
"""
)


def script(path: Path, text: str, **values: object) -> Path:
    path.write_text(text.format(python=sys.executable, **values))
    path.chmod(0o755)
    return path


def started(program: str, tmp_path: Path, **environment: str) -> subprocess.Popen[str]:
    given = {**os.environ, "FRAMELIFT_CACHE_DIR": str(tmp_path / "cache"), **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", program], env=given, text=True, cwd=tmp_path, **pipes)


def ran(program: str, tmp_path: Path, **environment: str) -> tuple[str, str]:
    process = started(program, tmp_path, **environment)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out, err


def test_processes_that_need_them_at_once_build_them_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    compiler = script(tmp_path / "compiler", COMPILER, log=str(log), built=BUILT, seconds=4)
    processes = [started(PROGRAM, tmp_path, CXX=str(compiler)) for _ in range(2)]
    told = [process.communicate(timeout=300) for process in processes]
    assert [out for out, _ in told] == ["function 1\n"] * 2, told
    assert len(log.read_text().splitlines()) == 1
    assert sum("building the guards for torch" in err for _, err in told) == 1
    (found,) = (tmp_path / "cache" / "native").glob("*.so")
    assert found.name == guards_build.file_name(guards_build.Torch.installed())
    assert not stat.S_IMODE(found.parent.stat().st_mode) & 0o077
    # and not again in a later process, nor with what is damaged
    out, err = ran(PROGRAM, tmp_path, CXX=str(compiler))
    assert out == "function 1\n" and "building" not in err
    found.write_bytes(b"")
    out, err = ran(PROGRAM, tmp_path, CXX=str(compiler))
    assert out == "function 1\n" and "building" in err and len(log.read_text().splitlines()) == 2


def test_without_a_compiler_programs_run_plainly_and_it_is_said_once(tmp_path: Path) -> None:
    out, _ = ran(NO_COMPILER, tmp_path, PATH=str(tmp_path), CXX="")
    first, *asked = out.splitlines()
    assert first.startswith(
        "1 RuntimeWarning Framelift runs programs as plain Python, and compiles nothing: "
    )
    assert "needs a C++20 compiler" in first and "apt-get install g++" in first
    assert asked == ["GuardsUnavailable"] * 3


def test_a_compiler_that_fails_is_quoted_and_not_asked_again(tmp_path: Path) -> None:
    compiler = script(tmp_path / "compiler", FAILING)
    out, err = ran(NO_COMPILER, tmp_path, CXX=str(compiler))
    assert "error: this compiler has had enough" in out and err.count("building the guards") == 1
    (log,) = (tmp_path / "cache" / "native").glob("*.log")
    assert str(log) in out and "_guards.cpp" in log.read_text()


def test_doctor_works_without_them_and_says_what_is_missing(tmp_path: Path) -> None:
    program = NOTHING_BESIDE + "from framelift.cli import main; print(main(['doctor']))"
    out, _ = ran(program, tmp_path, PATH=str(tmp_path), CXX="")
    assert "ok      the frame hook (_frame) works" in out and out.endswith("1\n")
    assert any(line.startswith("FAILED  guards") and "C++20 compiler" in line for line in out.splitlines())


def test_commands_that_need_them_say_so_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print(1)")
    program = NOTHING_BESIDE + "from framelift.cli import main; print(main(['explain', 'script.py']))"
    out, err = ran(program, tmp_path, PATH=str(tmp_path), CXX="")
    assert out == "1\n" and "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("framelift: ") and "needs a C++20 compiler" in last


def test_a_folder_that_others_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAMELIFT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    assert guards_build.cache_folder() == tmp_path / "cache" / "native"
    (tmp_path / "cache" / "native").chmod(0o777)
    assert guards_build.cache_folder().parent == tmp_path / "temporary" / f"framelift-{os.getuid()}"
    monkeypatch.setenv("FRAMELIFT_CACHE_DIR", "/proc/nothing/can/be/made/here")
    assert guards_build.cache_folder().parent == tmp_path / "temporary" / f"framelift-{os.getuid()}"


def test_the_file_is_named_after_all_that_it_depends_on() -> None:
    torch = guards_build.Torch.installed()
    other = guards_build.Torch("2.99.0", torch.revision, torch.folder, torch.cxx11_abi)
    revised = guards_build.Torch(torch.version, "another", torch.folder, torch.cxx11_abi)
    names = {guards_build.file_name(one) for one in (torch, other, revised)}
    assert len(names) == 3 and all(name.endswith(".so") for name in names)
    assert f"torch-{torch.version}." in guards_build.file_name(torch)
