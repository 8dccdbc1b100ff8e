"""The load settings as command-line options, the same for Locust's own command and for `python -m loadtest`."""

import argparse
from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import Any

from loadtest.settings import ARRIVALS, HEADER_SEPARATOR, LoadSettings


class _Joined(argparse.Action):
    """An option that may be repeated; it is one text, since a form has one field for it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest)
        text = str(values)
        setattr(namespace, self.dest, f"{before}{HEADER_SEPARATOR}{text}" if before else text)


def add_settings(parser: Any, names: Collection[str] | None = None) -> None:
    """An option for every load setting, or for those named, with its own type. The values are not checked yet."""
    for each in fields(LoadSettings):
        if names is not None and each.name not in names:
            continue
        more: dict[str, Any] = {"type": type(each.default)}
        if each.name == "arrivals":
            more["choices"] = ARRIVALS
        elif each.name == "header":
            more = {"action": _Joined}
        help_text = each.metadata["help"].replace("%", "%%")
        parser.add_argument("--" + each.name.replace("_", "-"), default=each.default, help=help_text, **more)
