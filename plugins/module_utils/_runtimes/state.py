# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state directory: what the collection keeps on a host, whatever the runtime: labels and records of groups, in one directory, written
atomically and for good. It implements store.Store.

<state dir>/host.lock
<state dir>/id                                           which state directory this is, wherever it is mounted
<state dir>/cordon.json                                  why no new member comes to this host
<state dir>/groups/<group>/record.json
<state dir>/groups/<group>/lock.json                     who changes the group
<state dir>/groups/<group>/holds.json                    ports that a router may still name
<state dir>/groups/<group>/guard/formation               what start scripts compare themselves with
<state dir>/groups/<group>/members/<member>/label.json   (and the runtime's own files beside it)
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import stat
import tempfile
import threading
import time
import typing as t
import uuid

from .._core.base.checked import Checked, DamagedError
from .._core.facts import label as labels
from .._core.facts import lock, observed
from .._core.facts import record as records
from .._core.facts.cordon import Cordon
from .._core.facts.cordon import mark as cordon_mark
from .errors import HostError
from .store import Damaged
from .trusted import untrusted

# More than a label or a record of the largest group takes; a file beyond it is none of ours. In memory JSON takes twenty times as much.
LARGEST = 8 * 2**20
LOCK_WAIT = 60.0
# What may stand in a path that ends up in configuration files and shell scripts of runtimes without surprises.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9_./@+,=~-]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def default_state_dir() -> str:
    if os.geteuid() == 0:
        return "/var/lib/inferops-pd"
    return os.path.join(os.path.expanduser("~"), ".local", "state", "inferops-pd")


class State:
    """The state directory. `lock` is taken for every decision and every change."""

    def __init__(self, root: str | None = None) -> None:
        self.root = os.path.normpath(root or default_state_dir())
        if not _PLAIN_PATH.fullmatch(self.root) or self.root == "/":
            raise HostError(
                "Reading option state_dir",
                f"{self.root!r} is no usable directory",
                "Give an absolute path of letters, digits and _ . / @ + , = ~ - only.",
            )
        self._mutex = threading.RLock()
        self._depth = 0

    # -- paths ---------------------------------------------------------------------------------------------------------------------

    @property
    def groups_dir(self) -> str:
        return os.path.join(self.root, "groups")

    def group_dir(self, group: str) -> str:
        return os.path.join(self.groups_dir, plain_name(group))

    def member_dir(self, group: str, member: str) -> str:
        return os.path.join(self.group_dir(group), "members", plain_name(member))

    def record_path(self, group: str) -> str:
        return os.path.join(self.group_dir(group), "record.json")

    def log_path(self, group: str, member: str) -> str:
        return os.path.join(self.member_dir(group, member), "member.log")

    def draining_path(self, group: str, member: str) -> str:
        return os.path.join(self.member_dir(group, member), "draining")

    def kept_log_path(self, group: str, member: str) -> str:
        return os.path.join(self.group_dir(group), "logs", plain_name(member) + ".log")

    def lock_path(self, group: str) -> str:
        return os.path.join(self.group_dir(group), "lock.json")

    def holds_path(self, group: str) -> str:
        return os.path.join(self.group_dir(group), "holds.json")

    def guard_dir(self, group: str) -> str:
        return os.path.join(self.group_dir(group), "guard")

    @property
    def id_path(self) -> str:
        return os.path.join(self.root, "id")

    @property
    def cordon_path(self) -> str:
        return os.path.join(self.root, "cordon.json")

    # -- reading -------------------------------------------------------------------------------------------------------------------

    def labels(self) -> list[dict[str, t.Any]]:
        """The label of every member of every group, in a fixed order. What cannot be read is in `damaged`."""
        return self._all_labels()[0]

    def bury(self, group: str, hosts: t.Collection[str]) -> None:
        """What another host had is that host's."""

    def serve(self, group: str, registered: bool, check: bool) -> bool:  # noqa: ARG002
        """A host has no such way: hooks tell clients."""
        return False

    def beside(self, place: str) -> list[dict[str, t.Any]]:  # noqa: ARG002 - a host is one place
        return self.labels()

    def _all_labels(self) -> tuple[list[dict[str, t.Any]], list[Damaged]]:
        found, damaged = [], []
        for group in _entries(self.groups_dir):
            for member in _entries(os.path.join(self.groups_dir, group, "members")):
                path = os.path.join(self.groups_dir, group, "members", member, "label.json")
                try:
                    label = read_json(path)
                    if label is not None:
                        read = labels.read(label, path)
                        if (read.group, read.member) != (group, member):
                            raise DamagedError(path, f"it names {read.member} of {read.group}")
                        found.append(label)
                except DamagedError as exc:
                    damaged.append(Damaged(exc.where, exc.why, group, member))
        return found, damaged

    def label(self, group: str, member: str) -> dict[str, t.Any] | None:
        path = os.path.join(self.member_dir(group, member), "label.json")
        label = read_json(path)
        if label is not None:
            labels.read(label, path)
        return label

    def records(self) -> dict[str, dict[str, t.Any]]:
        """The record of every group. What cannot be read is in `damaged`."""
        return self._all_records()[0]

    def _all_records(self) -> tuple[dict[str, dict[str, t.Any]], list[Damaged]]:
        found, damaged = {}, []
        for group in _entries(self.groups_dir):
            path = os.path.join(self.groups_dir, group, "record.json")
            try:
                record = self._record(path)
                if record is not None:
                    found[group] = record
            except DamagedError as exc:
                damaged.append(Damaged(exc.where, exc.why, group, None))
        return found, damaged

    def record(self, group: str) -> dict[str, t.Any] | None:
        return self._record(self.record_path(group))

    @staticmethod
    def _record(path: str) -> dict[str, t.Any] | None:
        record = read_json(path)
        if record is not None:
            records.read(record, path)
        return record

    def damaged(self) -> list[Damaged]:
        holds = (one for group in _entries(self.groups_dir) for one in self._holds_of(group)[1])
        return [*self._all_labels()[1], *self._all_records()[1], *holds]

    def _holds_of(self, group: str) -> tuple[list[dict[str, t.Any]], list[Damaged]]:
        """(the holds of a group that can be believed, what cannot)."""
        path = self.holds_path(group)
        found, damaged = [], []
        try:
            told = read_json(path)
            entries = Checked(told or {}, path).items("holds")
            if told is not None and not isinstance(told.get("holds"), list):
                raise DamagedError(path, "holds is no list")
        except DamagedError as exc:
            return [], [Damaged(exc.where, exc.why, None, None)]
        for at, one in enumerate(entries):
            try:
                observed.read_hold(Checked(one, path, f"holds[{at}]."))
                found.append(one)
            except DamagedError as exc:
                damaged.append(Damaged(exc.where, exc.why, None, None))
        return found, damaged

    def group_lock(self, group: str) -> dict[str, t.Any] | None:
        """Who changes the group. A version that kept it in the record may have left one there."""
        path = self.lock_path(group)
        try:
            found = read_json(path)
            found = found if found is not None else (self.record(group) or {}).get("lock")
            return dict(lock.read(found, path)) if found else None
        except DamagedError:
            # Whoever wrote it is gone, or about to write it again; a lock that nobody can read holds nobody up.
            return None

    def group_locks(self) -> dict[str, dict[str, t.Any]]:
        found = {group: self.group_lock(group) for group in _entries(self.groups_dir)}
        return {group: lock_ for group, lock_ in found.items() if lock_}

    def holds(self, group: str | None = None) -> list[dict[str, t.Any]]:
        """Ports that nobody gets, of one group or of all. What cannot be read is in `damaged`."""
        groups = _entries(self.groups_dir) if group is None else [group]
        return [hold for name in groups for hold in self._holds_of(name)[0]]

    def draining(self, group: str, member: str) -> bool:
        """Whether a run has begun to take this member away."""
        return os.path.exists(self.draining_path(group, member))

    def cordon(self) -> dict[str, t.Any] | None:
        """Why no new member comes to this host. A mark that cannot be believed is one: somebody has set it."""
        try:
            found = read_json(self.cordon_path)
            if found is not None:
                Cordon.read(Checked(found, self.cordon_path))
            return found
        except DamagedError as exc:
            return dict(cordon_mark("", 0.0, f"its mark {self.cordon_path} cannot be read: {exc.why}"))

    def kept_log(self, group: str, member: str) -> str | None:
        """Where the last log of a member that is gone can be read."""
        path = self.kept_log_path(group, member)
        return path if os.path.exists(path) else None

    # -- writing -------------------------------------------------------------------------------------------------------------------

    def write_record(self, group: str, record: t.Mapping[str, t.Any]) -> None:
        """The record, and before it the formation that start scripts ask for: one of the old formation must not start beside the new."""
        self._name_it()
        make_dirs(self.group_dir(group))
        # Containers get it bound, and their user may be anybody: it says nothing that is not on every command line.
        make_dirs(self.guard_dir(group), 0o755)
        write(os.path.join(self.guard_dir(group), "formation"), f"{record.get('formation') or ''}\n", 0o644)
        write(self.record_path(group), json.dumps(record, indent=1, sort_keys=True) + "\n")

    def write_label(self, label: t.Mapping[str, t.Any]) -> None:
        self._name_it()
        path = self.member_dir(label["group"], label["member"])
        make_dirs(path)
        write(os.path.join(path, "label.json"), json.dumps(label, indent=1, sort_keys=True) + "\n")

    def write_lock(self, group: str, lock: t.Mapping[str, t.Any] | None) -> None:
        """Take, renew or, with None, release the group's lock."""
        if lock is not None:
            make_dirs(self.group_dir(group))
            write(self.lock_path(group), json.dumps(lock, sort_keys=True) + "\n")
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.lock_path(group))
        with contextlib.suppress(DamagedError):
            record = self.record(group)
            if record and "lock" in record:
                self.write_record(group, {key: value for key, value in record.items() if key != "lock"})
        self.prune()

    def write_holds(self, group: str, holds: t.Sequence[t.Mapping[str, t.Any]]) -> None:
        """Keep the ports of members that are gone from everybody; none ends them all."""
        if holds:
            make_dirs(self.group_dir(group))
            write(self.holds_path(group), json.dumps({"holds": list(holds)}, sort_keys=True) + "\n")
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.holds_path(group))

    def write_cordon(self, mark: t.Mapping[str, t.Any] | None) -> None:
        """Set the mark, or take it away with what is empty then."""
        if mark is not None:
            make_dirs(self.root)
            write(self.cordon_path, json.dumps(mark, sort_keys=True) + "\n")
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.cordon_path)
        self.clear()

    def mark_draining(self, group: str, member: str) -> None:
        """Say that a member is leaving. It goes with the member."""
        if os.path.isdir(self.member_dir(group, member)):
            write(self.draining_path(group, member), f"{time.time():.3f}\n")

    def delete_member(self, group: str, member: str) -> None:
        """Delete what is kept of a member. Its log stays until the group is forgotten, or the next member of that id goes: whoever asks
        why a member was replaced finds the answer there."""
        kept = self.kept_log_path(group, member)
        if os.path.exists(self.log_path(group, member)):
            make_dirs(os.path.dirname(kept))
            with contextlib.suppress(OSError):
                os.replace(self.log_path(group, member), kept)
        remove_tree(self.member_dir(group, member))
        self.prune()

    def delete_group(self, group: str) -> None:
        """Forget a group; a port that a router elsewhere may still name stays held."""
        holds = self.holds(group)
        remove_tree(self.group_dir(group))
        self.write_holds(group, holds) if holds else None
        self.prune()

    def prune(self) -> None:
        """Delete the directories of groups that hold nothing any more: neither members nor a record."""
        for group in _entries(self.groups_dir):
            path = os.path.join(self.groups_dir, group)
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(path, "members"))
            if set(_entries(path)) <= {"logs", "guard"}:
                remove_tree(path)
        with contextlib.suppress(OSError):
            os.rmdir(self.groups_dir)

    def clear(self) -> None:
        """Delete the state directory itself when nothing of any group is left. Called with the lock held, which goes with it."""
        self.prune()
        if set(_entries(self.root)) <= {"host.lock", "id"}:
            for name in ("id", "host.lock"):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.root, name))
            with contextlib.suppress(OSError):
                os.rmdir(self.root)

    def _name_it(self) -> None:
        """Give the directory its identity, once: two inventory names, or two machines, that share it have the same."""
        if not os.path.exists(self.id_path):
            make_dirs(self.root)
            write(self.id_path, f"{uuid.uuid4()}\n", 0o644)

    # -- locking -------------------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def lock(self, wait: float = LOCK_WAIT) -> t.Iterator[None]:
        """Hold the host's lock. Reentrant within a thread; another process's is waited for, up to `wait` seconds, in which threads that
        wait for each other wait as well: they must not add up to minutes."""
        end = time.monotonic() + wait
        with self._mutex:
            if self._depth:
                yield
                return
            descriptor = self._flock(wait, end)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                os.close(descriptor)

    def _flock(self, wait: float, end: float) -> int:
        path = os.path.join(self.root, "host.lock")
        whose = untrusted(self.root)
        if whose:
            raise HostError(
                f"Using state directory {self.root}",
                f"{whose}, who could put a link in its place",
                "Set pd_state_dir to a folder of which all that is above it is root's, or of the user that Ansible is.",
            )
        while True:
            make_dirs(self.root)
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except FileNotFoundError:
                continue  # its directory was cleared just now
            except OSError as exc:
                raise HostError(f"Locking {path}", str(exc.strerror), "Run as the user that owns it.") from exc
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as exc:
                who = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip()
                os.close(descriptor)
                if time.monotonic() > end:
                    raise HostError(
                        f"Waiting {wait:g} s for {path}",
                        f"another run changes this host ({who or 'unknown'})",
                        "Run again when it has ended.",
                    ) from exc
                time.sleep(0.1)
                continue
            if _same_file(descriptor, path):
                # Who has it is a courtesy to those who wait; on a full disk it is left out.
                with contextlib.suppress(OSError):
                    os.truncate(descriptor, 0)
                    os.pwrite(descriptor, f"pid {os.getpid()} since {time.strftime('%H:%M:%S')}\n".encode(), 0)
                return descriptor
            os.close(descriptor)


def plain_name(name: str) -> str:
    """A group's or member's name that is safe as a file name."""
    if not _NAME.fullmatch(name) or len(name) > 200:
        raise HostError(
            f"Reading the name {name!r}", "it cannot be used as a file name", "Use letters, digits and - _ . only."
        )
    return name


def make_dirs(path: str, mode: int = 0o700) -> None:
    """Create a directory, and its parents for this user alone."""
    if os.path.isdir(path):
        return
    try:
        parent = os.path.dirname(path)
        if parent != path:
            make_dirs(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, mode)
    except OSError as exc:
        raise HostError(
            f"Creating {path}",
            str(exc.strerror),
            "Run as a user who may write there, or set pd_state_dir to a directory that you own.",
        ) from exc


def write(path: str, content: str, mode: int = 0o600) -> None:
    """Write a file as a whole or not at all. It never has a wider mode than `mode`, not even for a moment."""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".new-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
                stream.write(content)
                stream.flush()
                # After a power loss a file that was renamed and not written is empty.
                os.fsync(stream.fileno())
            os.chmod(temporary, mode)
            os.rename(temporary, path)
            _sync(os.path.dirname(path))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as exc:
        raise HostError(
            f"Writing {path}", str(exc.strerror), "Check free space and permissions of its directory."
        ) from exc


def _sync(folder: str) -> None:
    """Make a new name in a folder outlive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: str) -> dict[str, t.Any] | None:
    """A JSON object, or None when there is none. One that cannot be believed raises DamagedError: it must not look like an empty host."""
    try:
        # Nobody of ours makes a link or a FIFO of that name.
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise DamagedError(path, "it is no regular file")
        if found.st_size > LARGEST:
            raise DamagedError(path, f"it is larger than {LARGEST // 2**20} MiB")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path, flags), encoding="utf-8") as stream:
            value = json.load(stream)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except DamagedError:
        raise
    except OSError as exc:
        raise HostError(
            f"Reading {path}", str(exc.strerror), "Run as the user that owns it (with become, or without)."
        ) from exc
    except (ValueError, RecursionError) as exc:
        raise DamagedError(path, str(exc) if isinstance(exc, ValueError) else "it is nested too deep") from exc
    if not isinstance(value, dict):
        raise DamagedError(path, "it is no object")
    return value


def remove_tree(path: str) -> None:
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise HostError(f"Deleting {path}", str(exc.strerror or exc), "Delete it by hand, then run again.") from exc


def _entries(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as exc:
        raise HostError(
            f"Reading {path}", str(exc.strerror), "Run as the user that owns it (with become, or without)."
        ) from exc


def _same_file(descriptor: int, path: str) -> bool:
    """Whether the file that was locked is still the one of that name: whoever cleared the directory deleted it."""
    try:
        mine, there = os.fstat(descriptor), os.stat(path)
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)
