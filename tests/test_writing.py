"""Files appear whole or not at all: links are followed, modes kept, what is no file refused, old drafts removed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import svmatlas
from svmatlas.support.writing import check_goal, replacing


def put(path, text="new"):
    with replacing(path) as draft:
        draft.write_text(text)


def fail_half_way(path):
    with replacing(path) as draft:
        draft.write_text("half")
        raise RuntimeError("half way")


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def umask():
    old = os.umask(0o027)
    yield
    os.umask(old)


@pytest.mark.usefixtures("umask")
def test_a_new_file_has_the_usual_mode(tmp_path):
    put(tmp_path / "file.txt")
    assert (tmp_path / "file.txt").read_text() == "new"
    assert mode(tmp_path / "file.txt") == 0o640


@pytest.mark.parametrize("bits", [0o600, 0o644, 0o666, 0o400])
def test_an_older_file_keeps_its_mode(tmp_path, bits):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(bits)
    with replacing(path) as draft:
        assert mode(draft) == 0o600  # nobody else reads what the file may not show them
        draft.write_text("new")
    assert path.read_text() == "new"
    assert mode(path) == bits


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")
def test_an_older_file_keeps_its_owner(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    os.chown(path, 1234, 5678)
    put(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 5678)


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
def test_links_are_followed(tmp_path, there):
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    target, link = tmp_path / "far" / "file", tmp_path / "near" / "link"
    if there:
        target.write_text("old")
    link.symlink_to(Path("..") / "far" / "file")
    with replacing(link) as draft:
        assert draft.parent == target.parent  # moving it there crosses no file system
        draft.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert [p.name for p in (tmp_path / "far").iterdir()] == ["file"]


def test_what_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "to_null").symlink_to(os.devnull)
    for name, message in (("fifo", "no regular file"), ("to_null", "no regular file"), (".", "this is a folder")):
        for act in (check_goal, put):
            with pytest.raises(OSError, match=message):
                act(tmp_path / name)
    assert stat.S_ISFIFO(os.stat(tmp_path / "fifo").st_mode)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    with pytest.raises(FileNotFoundError, match=r"the folder .*nowhere does not exist"):
        check_goal(tmp_path / "nowhere" / "file")
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere" / "file")
    with pytest.raises(FileNotFoundError, match=r"the folder .*nowhere does not exist"):
        check_goal(tmp_path / "lost")


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="half way"):
        fail_half_way(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


KILLED = """
import sys, time
from svmatlas.support.writing import replacing
with replacing(sys.argv[1]) as draft:
    draft.write_text("half")
    print(draft, flush=True)
    time.sleep(60)
"""


def test_drafts_of_killed_processes_are_removed_and_no_others(tmp_path):
    path = tmp_path / "file.txt"
    environment = os.environ | {"PYTHONPATH": str(Path(svmatlas.__file__).parents[1])}
    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        draft = Path(process.stdout.readline().strip())
        put(path)
        assert draft.read_text() == "half"  # its process is at work
        process.send_signal(signal.SIGKILL)
    assert draft.exists()
    others = [tmp_path / ".file.txt.draft-of-mine", tmp_path / ".file.draft-0123456789abcdef0123456789abcdef"]
    for other in others:
        other.write_text("other")
    put(tmp_path / "another.txt")
    assert draft.exists()  # it is none of that file
    with replacing(path) as first, replacing(path) as second:
        assert not draft.exists()
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"
    assert sorted(tmp_path.iterdir()) == sorted([path, tmp_path / "another.txt", *others])


def test_maps_and_tables_are_written_so(small, tmp_path):
    _, _, atlas = small
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="no regular file"):
        atlas.save(tmp_path / "fifo")
    (tmp_path / "map").touch(mode=0o600)
    atlas.save(tmp_path / "map")
    assert mode(tmp_path / "map") == 0o600
    (tmp_path / "vertices.csv").symlink_to(tmp_path / "elsewhere.csv")
    atlas.export(tmp_path, "csv")
    assert (tmp_path / "vertices.csv").is_symlink()
    assert (tmp_path / "elsewhere.csv").read_text().startswith("p,q,l")
