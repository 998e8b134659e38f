"""Which vector instructions there are is found out once per machine."""

import os
import sys

import pytest
import torch
from torch._inductor import cpu_vec_isa

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
