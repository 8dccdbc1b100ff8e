"""A Grafana that is already installed, run with our dashboards: anonymous viewers, no accounts, no calls home."""

import shutil
from pathlib import Path
from typing import Final

from stack.errors import StackError
from stack.render import move_ports
from stack.settings import LOOPBACK, ROOT, StackSettings

_PACKAGED_HOME: Final = Path("/usr/share/grafana")


def command(program: Path) -> tuple[str, ...]:
    """How to run it. Its home directory holds its defaults and its pages; archives keep it beside `bin/`."""
    homes = [program.resolve().parents[1], _PACKAGED_HOME]
    for home in homes:
        if (home / "conf" / "defaults.ini").is_file():
            return (str(program), "server", "--homepath", str(home))
    raise StackError(
        f"{program} is on PATH, but its home directory is not to be found: looked for conf/defaults.ini in "
        f"{' and '.join(map(str, homes))}; take it off PATH to use the live page instead"
    )


def environment(settings: StackSettings, source: Path = ROOT / "grafana") -> dict[str, str]:
    """Its settings; provisioning is rendered into run/grafana."""
    data = settings.data_dir / "grafana"
    return {
        "GF_SERVER_HTTP_ADDR": LOOPBACK,
        "GF_SERVER_HTTP_PORT": str(settings.grafana_port),
        "GF_PATHS_DATA": str(data),
        "GF_PATHS_LOGS": str(data / "log"),
        "GF_PATHS_PLUGINS": str(data / "plugins"),
        "GF_PATHS_PROVISIONING": str(_provisioning(settings, source)),
        "GF_AUTH_ANONYMOUS_ENABLED": "true",
        "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
        "GF_AUTH_DISABLE_LOGIN_FORM": "true",
        "GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true",
        "GF_USERS_ALLOW_SIGN_UP": "false",
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
        "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
        "GF_NEWS_NEWS_FEED_ENABLED": "false",
        "GF_PLUGINS_PREINSTALL_DISABLED": "true",
        # Read by the provisioning files, which know no ports and no directories.
        "PROMETHEUS_URL": settings.url(settings.prometheus_port),
        "DASHBOARDS_DIR": str(source / "dashboards"),
    }


def _provisioning(settings: StackSettings, source: Path) -> Path:
    target = settings.run_dir / "grafana" / "provisioning"
    shutil.rmtree(target, ignore_errors=True)
    for folder in ("datasources", "dashboards", "plugins", "alerting"):  # it complains about those that are missing
        (target / folder).mkdir(parents=True)
    for file in sorted((source / "provisioning").rglob("*.y*ml")):
        copy = target / file.relative_to(source / "provisioning")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(move_ports(file.read_text(encoding="utf-8"), settings.moved_ports()), encoding="utf-8")
    return target
