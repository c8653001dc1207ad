"""Keeps what Python compiled of Ansible's modules and of collections, for the tests alone: each run compiles all of it again otherwise.

A module reaches its host as a zip file, and Ansible reads collections with a loader of its own: neither has a __pycache__. That was a
quarter of what a test run costs. The key is the source itself, so what runs is what the clone holds, always. venv.sh lays this file into
the environments of the tests; nobody who uses the collection has it.
"""

from __future__ import annotations

import sys
import zipimport

# Beside the environment that it belongs to: one Python, one user, and gone when that is gone.
FOLDER = sys.prefix + "/compiled"
FINDER = "ansible.utils.collection_loader._collection_finder"


def _compile(source, filename, mode, flags=0, dont_inherit=True):
    # The signature is the built-in's, as far as both callers use it. Imports are late: every Python here starts with this file.
    import _imp
    import hashlib
    import marshal
    import os

    if isinstance(source, str):
        source = source.encode()
    how = f"{mode}-{flags}-{sys.flags.optimize}"
    place = f"{FOLDER}/{how}-{hashlib.sha256(source).hexdigest()}"
    try:
        with open(place, "rb") as stream:
            code = marshal.loads(stream.read())
    except (OSError, ValueError, EOFError, TypeError):
        code = compile(source, filename, mode, flags, dont_inherit)
        try:
            os.makedirs(FOLDER, exist_ok=True)
            with open(f"{place}.{os.getpid()}", "wb") as stream:
                stream.write(marshal.dumps(code))
            os.replace(stream.name, place)  # nobody reads half of it
        except OSError:
            pass  # a user, or a host of the lab, that may not write here
    else:
        # A traceback names the file that was imported, not the first one with this text.
        _imp._fix_co_filename(code, filename)
    return code


class _Watch:
    """Tells Ansible's loader of it when that is imported, and not before: most Pythons of this environment never do."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != FINDER:
            return None
        from importlib.machinery import PathFinder

        sys.meta_path.remove(_Watch)
        spec = PathFinder.find_spec(name, path, target)
        if spec is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            module.compile = _compile
            run(module)

        spec.loader.exec_module = exec_module
        return spec


# Both call `compile` by name, and find this one before the built-in.
zipimport.compile = _compile
sys.meta_path.insert(0, _Watch)
