"""Importing Locust patches the process for gevent: only the locustfile and its user classes may do it."""

import subprocess
import sys
from pathlib import Path

MAY_IMPORT_LOCUST = {"idle", "locustfile", "scheduled", "user"}


def test_all_but_the_user_classes_can_be_imported_without_locust(root: Path) -> None:
    names = {path.stem for path in (root / "loadtest").glob("*.py")} - MAY_IMPORT_LOCUST - {"__init__", "__main__"}
    assert {"scheduler", "connection", "generator", "director", "web"} <= names
    program = "import sys, importlib\n"
    program += "".join(f"importlib.import_module('loadtest.{name}')\n" for name in sorted(names))
    program += "import socket, threading\nfrom gevent.monkey import is_module_patched\n"
    program += "print('locust' in sys.modules, is_module_patched('socket'), threading.active_count())"
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "1"]
