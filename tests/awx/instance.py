# Copyright (c) 2026, the inferops.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real AWX in one folder, of what setup.sh has built: API, dispatcher and callback receiver, a PostgreSQL and a Redis of its own.

Receptor and podman are stand-ins, by their wire and by their command line; AWX and ansible-runner are as published. It listens on
127.0.0.1 alone. `python tests/awx/instance.py up` leaves one that tests use, and leave; `down` ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing as t
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLONE = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

from ports import free_block  # noqa: E402

BUILT = CLONE / ".build" / "awx"
NODE = "awx-1"
# In the order of their start; they end in the reverse one.
PROCESSES = ("redis", "receptor", "dispatcher", "callback", "api")
# Which one is up.
NOTE = BUILT / "instance.json"

SETTINGS = """\
SECRET_KEY = {secret!r}
DATABASES = {{
    'default': {{
        'ATOMIC_REQUESTS': True, 'ENGINE': 'awx.main.db.profiled_pg', 'NAME': 'awx', 'USER': 'awx', 'HOST': '{folder}/run', 'PORT': '5432',
    }}
}}
BROKER_URL = 'unix://{folder}/run/redis.sock'
CHANNEL_LAYERS = {{
    'default': {{'BACKEND': 'channels_redis.core.RedisChannelLayer', 'CONFIG': {{'hosts': [BROKER_URL], 'capacity': 10000}}}}
}}
CACHES = {{'default': {{'BACKEND': 'awx.main.cache.AWXRedisCache', 'LOCATION': BROKER_URL + '?db=1'}}}}
CLUSTER_HOST_ID = '{node}'
SYSTEM_UUID = '00000000-0000-0000-0000-000000000001'
INSTALL_UUID = SYSTEM_UUID
ALLOWED_HOSTS = ['*']
SESSION_COOKIE_SECURE = False
CSRF_COOKIE_SECURE = False
BROADCAST_WEBSOCKET_SECRET = SECRET_KEY
PROJECTS_ROOT = '{folder}/projects/'
JOBOUTPUT_ROOT = '{folder}/job_status/'
STATIC_ROOT = '{folder}/static'
LOG_ROOT = '{folder}/log/'
AWX_ISOLATION_BASE_PATH = '{folder}/tmp'
AWX_ISOLATION_SHOW_PATHS = []
DEFAULT_CONTAINER_RUN_OPTIONS = []
GLOBAL_JOB_EXECUTION_ENVIRONMENTS = [{{'name': 'default', 'image': 'localhost/jobs:latest'}}]
CONTROL_PLANE_EXECUTION_ENVIRONMENT = 'localhost/control:latest'
TOWER_URL_BASE = 'http://127.0.0.1:{port}'
INSIGHTS_TRACKING_STATE = False
JOB_EVENT_WORKERS = 1
METRICS_SUBSYSTEM_CONFIG = {{
    'server': {{'callback_receiver': {{'port': {port} + 1}}, 'dispatcher': {{'port': {port} + 2}}, 'websockets': {{'port': {port} + 3}}}}
}}
"""
RECEPTOR = """\
- node: {{id: {node}}}
- control-service: {{service: control, filename: {folder}/run/receptor.sock}}
- work-command: {{worktype: local, command: ansible-runner, params: worker, allowruntimeparams: true}}
"""
POSTGRES = """
listen_addresses = ''
unix_socket_directories = '{folder}/run'
port = 5432
fsync = off
synchronous_commit = off
full_page_writes = off
shared_buffers = 64MB
max_connections = 100
"""
# What a new AWX is told, in the words of awx-manage, once its tables are there.
FIRST = (
    "createsuperuser --noinput --username admin --email admin@localhost",
    "create_preload_data",
    f"provision_instance --hostname {NODE} --node_type hybrid",
    "register_queue --queuename controlplane --instance_percent 100",
    "register_queue --queuename default --instance_percent 100",
    "register_default_execution_environments",
)
# By the environment: a command line is seen by all.
GIVE_PASSWORD = """
import os
from awx.main.models import User
admin = User.objects.get(username="admin")
admin.set_password(os.environ["ADMIN_PASSWORD"])
admin.save()
"""


class Instance:
    """An AWX in `folder`, whose API has `port`; `password` is admin's."""

    def __init__(self, folder: Path, port: int, password: str) -> None:
        self.folder, self.port, self.password = folder, port, password
        self.awx = (BUILT / "awx").resolve()
        self.venv = self.awx / "venv"
        self.postgres = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))[-1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Of its processes, which are known as its by the names of files of it."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTEST_", "PG"))}
        return {
            **own,
            "AWX_SETTINGS_FILE": f"{self.folder}/etc/settings.py",
            "AWX_RECEPTOR_CONF": f"{self.folder}/etc/receptor.conf",
            "AWX_LOGGING_MODE": "stdout",
            "STANDIN_IMAGES": f"{self.folder}/images",
            "STANDIN_CONTAINERS": f"{self.folder}/containers",
            "PYTHONPATH": f"{self.awx}/src",
            "PATH": f"{self.folder}/bin:{self.venv}/bin:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "HOME": f"{self.folder}/home",
        }

    # --- Its parts.

    def log(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.log"

    def do(self, log: str, *command: str, given: t.IO[bytes] | None = None, **variables: str) -> None:
        with self.log(log).open("ab") as out:
            done = subprocess.run(
                command, cwd=self.folder, env={**self.environment, **variables}, check=False,
                stdin=given or subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        if done.returncode:
            tail = self.log(log).read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}; {self.log(log)} ends with:\n{tail}")

    def manage(self, *words: str, **variables: str) -> None:
        self.do("manage", f"{self.venv}/bin/python", f"{self.awx}/src/manage.py", *words, **variables)

    def as_postgres(self, *command: str, given: t.IO[bytes] | None = None) -> None:
        program = str(self.postgres / command[0])
        user = ("setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", "env", "HOME=/tmp")
        self.do("postgres", *user, program, *command[1:], given=given)

    def start(self, name: str, *command: str) -> None:
        """A process group of its own; its pid is in run/NAME.pid."""
        with self.log(name).open("ab") as out:
            process = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        (self.folder / "run" / f"{name}.pid").write_text(str(process.pid))

    def pid(self, name: str) -> int | None:
        """The process of that name, while it lives and is of this instance."""
        try:
            pid = int((self.folder / "run" / f"{name}.pid").read_text())
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # where it is a child of ours that has ended
            # Redis writes its title over its environment, and gunicorn is in another folder.
            told = os.fsencode(os.readlink(f"/proc/{pid}/cwd")) + Path(f"/proc/{pid}/environ").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(self.folder) in told else None

    def answers(self) -> bool:
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                f"{self.url}/api/v2/ping/", timeout=10
            ) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    # --- Up, and down.

    def lay_out(self) -> None:
        """Its folders and settings. PostgreSQL's user has to get through, and has its own two."""
        self.folder.chmod(0o711)
        for name in ("bin", "etc", "projects", "job_status", "spool", "tmp", "static", "home", "images", "containers"):
            (self.folder / name).mkdir(mode=0o700)
        for name in ("run", "log", "pg"):
            (self.folder / name).mkdir(mode=0o711 if name != "pg" else 0o700)
            if name != "log":
                shutil.chown(self.folder / name, "postgres", "postgres")
        known = {"folder": self.folder, "port": self.port, "node": NODE, "secret": secrets.token_hex(32)}
        (self.folder / "etc" / "settings.py").write_text(SETTINGS.format(**known))
        (self.folder / "etc" / "receptor.conf").write_text(RECEPTOR.format(**known))
        podman = self.folder / "bin" / "podman"
        code = (HERE / "podman_standin.py").read_text()
        podman.write_text(f"#!{self.venv}/bin/python\n{code}")
        podman.chmod(0o755)
        # By the names of the images that AWX runs itself in, and of all others.
        (self.folder / "images" / "localhost_control_latest").symlink_to(self.awx / "control")
        (self.folder / "images" / "jobs").symlink_to((BUILT / "jobs").resolve())

    def up(self) -> None:
        self.lay_out()
        folder = self.folder
        locale = ("-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        self.as_postgres("initdb", "-D", f"{folder}/pg", *locale)
        with (folder / "pg" / "postgresql.conf").open("a") as file:
            file.write(POSTGRES.format(folder=folder))
        self.as_postgres("pg_ctl", "-D", f"{folder}/pg", "-w", "-l", f"{folder}/run/postgres.log", "start")
        self.as_postgres("createuser", "-h", f"{folder}/run", "-s", "awx")
        self.as_postgres("createdb", "-h", f"{folder}/run", "-O", "awx", "awx")
        socket = f"{folder}/run/redis.sock"
        self.start(
            "redis", "redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", f"{folder}/run"
        )
        self._until("redis", Path(socket).exists)
        self._tables()
        python, manage = f"{self.venv}/bin/python", f"{self.awx}/src/manage.py"
        socket = f"{folder}/run/receptor.sock"
        self.start("receptor", python, str(HERE / "receptor_standin.py"), socket, NODE, f"{folder}/spool")
        self._until("receptor", Path(socket).exists)
        self.start("dispatcher", python, manage, "run_dispatcher")
        self.start("callback", python, manage, "run_callback_receiver")
        at = ("-b", f"127.0.0.1:{self.port}", "--workers", "1", "--threads", "4", "--timeout", "120")
        self.start("api", f"{self.venv}/bin/gunicorn", "--chdir", f"{self.awx}/src", *at, "awx.wsgi:application")
        self._until("api", self.answers)

    def _tables(self) -> None:
        """AWX's tables: of the dump that an earlier one of the same source has left, or by its migrations, which take minutes."""
        dump = self.awx / "tables.dump"
        if dump.exists():
            with dump.open("rb") as given:
                self.as_postgres("pg_restore", "-h", f"{self.folder}/run", "-d", "awx", given=given)
        else:
            for words in ("migrate --noinput", *FIRST):
                self.manage(*words.split(), DJANGO_SUPERUSER_PASSWORD=secrets.token_hex(12))
            made = self.folder / "run" / "tables.dump"
            self.as_postgres("pg_dump", "-h", f"{self.folder}/run", "-Fc", "-f", str(made), "awx")
            shutil.copyfile(made, dump.with_suffix(".part"))
            dump.with_suffix(".part").rename(dump)
        self.manage("shell", "-c", GIVE_PASSWORD, ADMIN_PASSWORD=self.password)

    def _until(self, name: str, true: t.Callable[[], bool], seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not true():
            tail = self.log(name).read_text(errors="replace")[-2000:]
            if self.pid(name) is None:
                raise RuntimeError(f"AWX's {name} has ended; its log:\n{tail}")
            if time.monotonic() > end:
                raise RuntimeError(f"AWX's {name} is not there after {seconds:.0f} s; its log:\n{tail}")
            time.sleep(0.2)

    def down(self) -> None:
        """End all of it, jobs first, and remove the folder. What jobs started on hosts is not of it."""
        for name in reversed(PROCESSES):
            self._end(name)
        for file in (self.folder / "containers").glob("*"):
            # A job whose worker did not come to end it.
            with contextlib.suppress(OSError, ValueError):
                pid = int(file.read_text())
                if b"container=podman" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    os.killpg(os.getpgid(pid), signal.SIGKILL)
        if (self.folder / "pg" / "postmaster.pid").exists():
            self.as_postgres("pg_ctl", "-D", f"{self.folder}/pg", "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            Path("/runner").rmdir()  # where jobs had their folder mounted

    def _end(self, name: str) -> None:
        for number, seconds in ((signal.SIGTERM, 15), (signal.SIGKILL, 5)):
            pid = self.pid(name)
            if pid is None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)
            end = time.monotonic() + seconds
            while self.pid(name) is not None and time.monotonic() < end:
                time.sleep(0.1)


def noted() -> tuple[Instance, int] | None:
    """The one of this clone that was not ended, and the pid of the tests that have it; 0: `up` has left it."""
    try:
        note = json.loads(NOTE.read_text())
    except (OSError, ValueError):
        return None
    return Instance(Path(note["folder"]), note["port"], note["password"]), note["owner"]


def running() -> Instance | None:
    """The one that `up` has left, while it answers."""
    found = noted()
    return found[0] if found and not found[1] and found[0].answers() else None


def make(owner: int) -> Instance:
    """A new one, which is up. One that killed tests have left, or that does not answer any more, is ended before."""
    left = noted()
    if left and Path(f"/proc/{left[1]}").exists():
        raise RuntimeError(f"the tests of pid {left[1]} have an AWX in this clone; another is for their end")
    if left:
        end(left[0])
    made = Instance(Path(tempfile.mkdtemp(prefix="pd-awx-")), free_block(4), secrets.token_hex(12))
    NOTE.touch(0o600)
    note = {"folder": str(made.folder), "port": made.port, "password": made.password, "owner": owner}
    NOTE.write_text(json.dumps(note))
    try:
        made.up()
    except BaseException:
        end(made)
        raise
    return made


def end(instance: Instance) -> None:
    """Down, with its logs kept."""
    with contextlib.suppress(OSError):
        shutil.copytree(instance.folder / "log", BUILT / "log", dirs_exist_ok=True)
    instance.down()
    NOTE.unlink(missing_ok=True)


def main(action: str) -> None:
    if action == "up":
        found = running() or make(owner=0)
        print(f"AWX answers at {found.url}, to admin, password {found.password}; its logs: {found.folder}/log")
    elif action == "down":
        left = noted()
        if left:
            end(left[0])
    else:
        sys.exit("instance.py up | down")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
