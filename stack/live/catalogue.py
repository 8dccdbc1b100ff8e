"""The dashboards of a directory, read again whenever a file changes: an edit shows at the next refresh."""

import threading
from dataclasses import dataclass
from pathlib import Path

from stack.live.dashboard import Dashboard, DashboardError, parse_dashboard

_Stamp = tuple[int, int]  # modification time and size


@dataclass(frozen=True, slots=True)
class Trouble:
    """A file that is no dashboard, and why."""

    file: str
    message: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What the directory holds, by file name; of two files with one uid the first counts."""

    dashboards: tuple[Dashboard, ...]
    troubles: tuple[Trouble, ...]

    def by_uid(self, uid: str) -> Dashboard | None:
        return next((dashboard for dashboard in self.dashboards if dashboard.uid == uid), None)


class Catalogue:
    """Reads `directory/**/*.json`; unchanged files are parsed once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._parsed: dict[Path, tuple[_Stamp, Dashboard | Trouble]] = {}

    def contents(self) -> Contents:
        with self._lock:
            found = {path: self._read(path) for path in sorted(self._directory.rglob("*.json"))}
            self._parsed = {path: (stamp, result) for path, (stamp, result) in found.items()}
        dashboards: dict[str, Dashboard] = {}
        troubles: list[Trouble] = []
        for path, (_, result) in found.items():
            if isinstance(result, Trouble):
                troubles.append(result)
            elif result.uid in dashboards:
                troubles.append(Trouble(path.name, f"its uid {result.uid!r} is that of an earlier file"))
            else:
                dashboards[result.uid] = result
        return Contents(tuple(dashboards.values()), tuple(troubles))

    def _read(self, path: Path) -> tuple[_Stamp, Dashboard | Trouble]:
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._parsed.get(path)
            if known is not None and known[0] == stamp:
                return known
            return stamp, parse_dashboard(path.read_text(encoding="utf-8"))
        except OSError as error:
            return (0, 0), Trouble(path.name, f"cannot be read: {error.strerror}")
        except UnicodeDecodeError:
            return stamp, Trouble(path.name, "is not UTF-8")
        except DashboardError as error:
            return stamp, Trouble(path.name, str(error))
