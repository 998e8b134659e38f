"""Which vector instructions there are is found out once per machine."""

import inspect
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch._inductor.config
from torch._inductor import codecache, cpu_vec_isa

import framelift
from framelift.dispatch import vector_probes

CODE = "int answer() { return 42; }"


class Tried:
    """Stands for the method of Inductor's that compiles and loads a program."""

    def __init__(self, works=True):
        self.works, self.programs = works, []
        self.check = vector_probes.once(lambda isa, code: self.programs.append(code) or self.works)


@pytest.fixture(autouse=True)
def folder(tmp_path):
    with framelift.config.patch(cache=True, cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache" / vector_probes.FOLDER


@pytest.fixture
def isa():
    return cpu_vec_isa.VecAVX2()


def test_a_program_that_worked_is_not_tried_again(isa):
    for expected in (1, 0):  # another process, as it were
        tried = Tried()
        assert tried.check(isa, CODE) is True
        assert len(tried.programs) == expected


def test_a_program_that_failed_is_tried_again(isa):
    for _ in range(2):
        tried = Tried(works=False)
        assert tried.check(isa, CODE) is False
        assert tried.programs == [CODE]
    assert Tried(works=True).check(isa, CODE) is True


def change_processor(monkeypatch):
    monkeypatch.setattr(vector_probes, "processor", lambda: "another")


def change_files(monkeypatch):
    before = vector_probes.identity
    monkeypatch.setattr(vector_probes, "identity", lambda path: before(path) + "1")


def change_torch(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "9.9")


def change_environment(monkeypatch):
    monkeypatch.setenv("CPATH", "elsewhere")


@pytest.mark.parametrize("change", [change_processor, change_files, change_torch, change_environment])
def test_a_change_of_what_it_depends_on_is_noticed(isa, change, monkeypatch):
    assert Tried().check(isa, CODE)
    change(monkeypatch)
    tried = Tried()
    assert tried.check(isa, CODE)
    assert tried.programs == [CODE]


def test_another_program_and_other_instructions_are_tried(isa):
    assert Tried().check(isa, CODE)
    tried = Tried()
    assert tried.check(isa, CODE + "\n")
    assert tried.check(cpu_vec_isa.VecAVX512(), CODE)
    assert len(tried.programs) == 2


def damage_content(path):
    path.write_bytes(b"worked for someone")


def damage_owner(path):
    path.chmod(0o666)


def damage_kind(path):
    path.unlink()
    path.symlink_to(__file__)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
@pytest.mark.parametrize("damage", [damage_content, damage_owner, damage_kind])
def test_a_file_that_is_not_what_was_written_is_not_believed(isa, folder, damage):
    assert Tried().check(isa, CODE)
    (path,) = folder.iterdir()
    damage(path)
    tried = Tried()
    assert tried.check(isa, CODE)
    assert tried.programs == [CODE]


def test_without_a_folder_to_write_to_it_is_found_out_each_time(isa, tmp_path):
    (tmp_path / "file").write_text("")
    with framelift.config.patch(cache_dir=str(tmp_path / "file" / "cache")):
        for _ in range(2):
            tried = Tried()
            assert tried.check(isa, CODE)
            assert tried.programs == [CODE]


def test_nothing_is_kept_without_a_cache(isa, folder):
    with framelift.config.patch(cache=False):
        assert Tried().check(isa, CODE)
    assert not folder.exists()


def test_a_compiler_that_is_not_there_is_left_to_inductor(isa, monkeypatch):
    monkeypatch.setattr(vector_probes.shutil, "which", lambda name: None)
    for _ in range(2):
        tried = Tried(works=False)
        assert tried.check(isa, CODE) is False
        assert tried.programs == [CODE]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it may not be known what the processor is")
def test_inductor_asks_here(folder):
    vector_probes.keep_probes()
    assert cpu_vec_isa.VecISA.check_build.__wrapped__ is not None
    assert cpu_vec_isa.VecAVX2().check_build(CODE) is True
    assert [path.read_bytes() for path in folder.iterdir()] == [vector_probes.WORKS]


# ---- tried ahead, in threads


class Held(Tried):
    """A program that takes until it is let go."""

    def __init__(self, *results):
        self.results, self.programs = list(results), []
        self.began, self.go_on = threading.Event(), threading.Event()
        self.check = vector_probes.once(self.run)

    def run(self, isa, code):
        self.programs.append(code)
        self.began.set()
        assert self.go_on.wait(60)
        return self.results.pop(0)


def asked_by_two(tried, isa):
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(tried.check, isa, CODE)
        assert tried.began.wait(60)
        second = pool.submit(tried.check, isa, CODE)
        tried.go_on.set()
        return first.result(60), second.result(60)


def test_a_program_that_a_thread_is_at_is_waited_for(isa):
    tried = Held(True)
    assert asked_by_two(tried, isa) == (True, True)
    assert tried.programs == [CODE]
    assert not vector_probes.trying


def test_what_failed_in_a_thread_is_tried_by_who_asks(isa):
    tried = Held(False, True)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(tried.check, isa, CODE)
        assert tried.began.wait(60)
        (running,) = vector_probes.trying.values()
        waits = threading.Event()
        wait = running.result
        running.result = lambda: (waits.set(), wait())[1]
        second = pool.submit(tried.check, isa, CODE)
        assert waits.wait(60)
        tried.go_on.set()
        assert first.result(60) is False
        assert second.result(60) is True
    assert tried.programs == [CODE, CODE]


def test_an_interrupted_program_is_tried_again(isa):
    def interrupt(isa, code):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vector_probes.once(interrupt)(isa, CODE)
    assert not vector_probes.trying
    assert Tried().check(isa, CODE) is True


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_waits_for_no_thread_of_its_parent(isa):
    tried = Held(True)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(tried.check, isa, CODE)
        assert tried.began.wait(60)
        child = os.fork()
        if child == 0:
            os._exit(0 if Tried().check(isa, CODE) is True else 1)
        tried.go_on.set()
        assert asked.result(60) is True
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_nothing_is_started_on_one_processor(monkeypatch):
    monkeypatch.setattr(vector_probes, "processors", lambda: 1)
    monkeypatch.setattr(vector_probes, "start", lambda *args: pytest.fail("started"))
    vector_probes.probe_ahead.__wrapped__()


def test_a_header_is_made_ahead_where_inductor_has_compiled_nothing(tmp_path, monkeypatch):
    """Where it has, its results may be found on disk, and need no header."""
    monkeypatch.setattr(codecache, "_HEADER_DIR", str(tmp_path / "headers"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    assert vector_probes.needs_header()
    (tmp_path / "inductor" / "fxgraph").mkdir(parents=True)
    assert not vector_probes.needs_header()
    (tmp_path / "inductor" / "fxgraph").rmdir()
    (tmp_path / "headers" / "ab").mkdir(parents=True)
    (tmp_path / "headers" / "ab" / "header.h.gch").touch()
    assert not vector_probes.needs_header()


def test_what_failed_ahead_is_not_remembered_by_inductor(monkeypatch):
    never = type("Never", (cpu_vec_isa.VecAVX2,), {"__hash__": cpu_vec_isa.VecAVX2.__hash__})()
    monkeypatch.setattr(cpu_vec_isa.VecISA, "check_build", Tried(works=False).check)
    vector_probes.try_ahead(never)
    monkeypatch.setattr(cpu_vec_isa.VecISA, "check_build", Tried(works=True).check)
    assert bool(never) is True


BEST = "avx512 avx512_vnni"


@pytest.mark.parametrize("failing", [(), (BEST,), ("avx512",), (BEST, "avx512")])
@pytest.mark.parametrize("simdlen", [None, 256, 512, 128])
@pytest.mark.filterwarnings("ignore:ignoring invalid value for ATEN_CPU_CAPABILITY")
@pytest.mark.parametrize("capability", [None, "avx2", "avx512", "default"])
def test_the_instructions_are_those_that_inductor_picks_of_all(monkeypatch, failing, simdlen, capability):
    class Instructions:
        def __init__(self, name, width):
            self.name, self.width = name, width

        def __str__(self):
            return self.name

        def __bool__(self):
            asked.append(self.name)
            return self.name not in failing

        def bit_width(self):
            return self.width

    asked = []
    known = [Instructions(BEST, 512), Instructions("avx512", 512), Instructions("avx2", 256)]
    every = inspect.unwrap(cpu_vec_isa.valid_vec_isa_list)
    monkeypatch.setattr(cpu_vec_isa, "supported_vec_isa_list", known)
    monkeypatch.setattr(cpu_vec_isa, "x86_isa_checker", lambda: ["avx512", "avx512_vnni", "avx2"])
    if capability is not None:
        monkeypatch.setenv("ATEN_CPU_CAPABILITY", capability)
    with torch._inductor.config.patch({"cpp.simdlen": simdlen}):
        monkeypatch.setattr(cpu_vec_isa, "valid_vec_isa_list", every)
        expected = cpu_vec_isa.pick_vec_isa()
        asked.clear()
        monkeypatch.setattr(cpu_vec_isa, "valid_vec_isa_list", vector_probes.as_far_as_asked(every))
        assert cpu_vec_isa.pick_vec_isa() is expected
    if simdlen is None and capability is None:
        assert len(asked) == known.index(expected) + 1


FIRST = """
import glob, os, sys, threading, torch, framelift
from torch._inductor import codecache

threads, make = [], codecache._precompile_header
codecache._precompile_header = lambda *args, **given: (
    threads.append(threading.current_thread().name), make(*args, **given))[1]

class Imports:
    def find_spec(name, *args):
        if threading.current_thread().name == "framelift probes":
            print(name, "is imported by a thread")

sys.meta_path.insert(0, Imports)

def fn(x):
    return x.softmax(-1) + 1

x = torch.randn(8, 64)
assert torch.allclose(framelift.compile(fn)(x), fn(x))
headers = glob.glob(codecache._HEADER_DIR + "/**/*.gch", recursive=True)
print(len(headers), *sorted(threads), sep=", ")
"""


@pytest.mark.skipif(
    vector_probes.processors() < 2 or not cpu_vec_isa.x86_isa_checker(), reason="nothing is made ahead here"
)
def test_the_header_made_ahead_is_the_one_that_kernels_include(tmp_path):
    """Another one would be there as well if it were not."""
    places = {"TMPDIR": "tmp", "TORCHINDUCTOR_CACHE_DIR": "inductor", "FRAMELIFT_CACHE_DIR": "framelift"}
    for name in places.values():
        (tmp_path / name).mkdir(mode=0o700)
    environment = {**os.environ, "FRAMELIFT_CACHE": "1", "FRAMELIFT_PREPARE": "0"}
    environment |= {variable: str(tmp_path / name) for variable, name in places.items()}
    command = [sys.executable, "-c", FIRST]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "1, MainThread, framelift probes\n"
