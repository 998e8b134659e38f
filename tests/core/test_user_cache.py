"""Files that are kept for the next process: whole or not there, and only the user's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import framelift
from framelift.core.user_cache import (
    UntrustedFileError,
    make_private_dir,
    read_trusted,
    user_cache_dir,
    write_atomically,
)


def test_the_folder_is_the_users_or_the_one_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with framelift.config.patch(cache_dir=""):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert user_cache_dir() == tmp_path / "framelift"
        monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
        assert user_cache_dir() == Path.home() / ".cache" / "framelift"
    with framelift.config.patch(cache_dir=str(tmp_path / "elsewhere")):
        assert user_cache_dir() == tmp_path / "elsewhere"


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert read_trusted(path) == b"two"
    assert os.listdir(tmp_path) == ["kept"]


def test_a_file_that_can_not_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "kept", b"one")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_what_others_can_write_is_not_read(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "kept"
    write_atomically(path, b"one")
    path.chmod(mode)
    with pytest.raises(UntrustedFileError, match="can be written by other users"):
        read_trusted(path)


def test_what_belongs_to_another_user_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept"
    write_atomically(path, b"one")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UntrustedFileError, match="belongs to another user"):
        read_trusted(path)


def test_neither_links_nor_folders_are_read(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    write_atomically(path, b"one")
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError):
        read_trusted(tmp_path / "link")
    with pytest.raises(OSError):
        read_trusted(tmp_path)


def test_a_folder_is_private_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    make_private_dir(path)
    make_private_dir(path)
    assert path.stat().st_mode & 0o777 == 0o700
    path.chmod(0o777)
    with pytest.raises(UntrustedFileError, match="can be written by other users"):
        make_private_dir(path)
