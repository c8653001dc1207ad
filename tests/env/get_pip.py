"""Stands in for the pip bootstrap script that ansible-test would download: Python brings a pip of its own."""

from __future__ import annotations

import subprocess
import sys

subprocess.check_call([sys.executable, "-m", "ensurepip", "--default-pip"], stdout=subprocess.DEVNULL)
wanted = [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]))
