"""How the values of one series are shown: a panel's defaults with the overrides that match it. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from stack.live.dashboard import Json, Panel, mapping, number, objects, string

# Colours of the page's own palette, told apart with any of the common kinds of colour blindness.
PALETTE_SIZE: Final = 8


@dataclass(frozen=True, slots=True)
class Threshold:
    """From `value` on (None: from the very bottom) the colour is `colour`."""

    value: float | None
    colour: str


@dataclass(frozen=True, slots=True)
class Field:
    """fieldConfig for one series."""

    unit: str = ""
    decimals: int | None = None
    lowest: float | None = None
    highest: float | None = None
    display_name: str = ""
    no_value: str = ""
    colour_mode: str = ""
    fixed_colour: str = ""
    thresholds: tuple[Threshold, ...] = ()
    mappings: tuple[Json, ...] = ()
    custom: Json = field(default_factory=dict)

    def threshold_at(self, value: float) -> Threshold | None:
        """The step that holds at this value."""
        held = None
        for step in self.thresholds:
            if step.value is None or value >= step.value:
                held = step
        return held

    @property
    def limits(self) -> tuple[Threshold, ...]:
        """The steps with a value: those that can be drawn as a line."""
        return tuple(step for step in self.thresholds if step.value is not None)


def field_for(panel: Panel, name: str = "", ref_id: str = "") -> Field:
    """The panel's defaults with every override whose matcher fits this series, in the file's order."""
    properties: dict[str, Any] = _flat(panel.defaults)
    for override in panel.overrides:
        if matches(mapping(override, "matcher"), name, ref_id):
            for item in objects(override, "properties"):
                if string(item, "id"):
                    properties[string(item, "id")] = item.get("value")
    custom = {key.removeprefix("custom."): value for key, value in properties.items() if key.startswith("custom.")}
    color = properties.get("color")
    color = color if isinstance(color, Mapping) else {}
    decimals = number(properties, "decimals")
    return Field(
        unit=string(properties, "unit"),
        decimals=None if decimals is None else int(decimals),
        lowest=number(properties, "min"),
        highest=number(properties, "max"),
        display_name=string(properties, "displayName"),
        no_value=string(properties, "noValue"),
        colour_mode=string(color, "mode"),
        fixed_colour=string(color, "fixedColor"),
        thresholds=_thresholds(mapping(properties, "thresholds")),
        mappings=tuple(objects(properties, "mappings")),
        custom=custom,
    )


def _flat(defaults: Json) -> dict[str, Any]:
    """Defaults under the ids that overrides use: custom's keys become "custom.<key>"."""
    flat = {key: value for key, value in defaults.items() if key != "custom"}
    flat.update({f"custom.{key}": value for key, value in mapping(defaults, "custom").items()})
    return flat


def matches(matcher: Json, name: str, ref_id: str) -> bool:
    """Grafana's field matchers by name, by names, by regular expression and by query."""
    kind, options = string(matcher, "id"), matcher.get("options")
    if kind == "byName":
        return options == name
    if kind == "byNames":
        names = options.get("names") if isinstance(options, Mapping) else None
        return isinstance(names, Sequence) and name in names
    if kind == "byRegexp" and isinstance(options, str):
        try:
            return re.search(options.removeprefix("/").removesuffix("/"), name) is not None
        except re.error:
            return False
    if kind == "byFrameRefID":
        return bool(ref_id) and options == ref_id
    return False


def _thresholds(thresholds: Json) -> tuple[Threshold, ...]:
    if string(thresholds, "mode") == "percentage":
        return ()  # a share of an axis that moves says nothing about a service
    steps = [
        Threshold(number(step, "value"), string(step, "color") or "green") for step in objects(thresholds, "steps")
    ]
    # The first step holds from the bottom, whatever its value says.
    return tuple(Threshold(None, step.colour) if index == 0 else step for index, step in enumerate(steps))


def mapped_text(value: float | None, mappings: Sequence[Json]) -> tuple[str, str] | None:
    """(text, colour) of the first value mapping that fits; None when none does."""
    for entry in mappings:
        options, kind = mapping(entry, "options"), string(entry, "type")
        result: Json = {}
        if kind == "value" and value is not None:
            result = mapping(options, f"{value:g}")
        elif kind == "range" and value is not None:
            start, end = number(options, "from"), number(options, "to")
            if (start is None or value >= start) and (end is None or value <= end):
                result = mapping(options, "result")
        elif kind == "special" and value is None and string(options, "match") in ("null", "nan", "null+nan"):
            result = mapping(options, "result")
        if result:
            return string(result, "text"), string(result, "color")
    return None


def colour(name: str) -> str:
    """A colour for the browser: "@name" is looked up in the theme there, #hex and rgb() pass through."""
    if re.fullmatch(r"#[0-9a-fA-F]{3,8}|(?:rgb|hsl)a?\([\d\s.,%/]+\)", name):
        return name
    return f"@{name}" if re.fullmatch(r"[a-z-]+", name) else "@text"


def is_calm(name: str) -> bool:
    """Whether a threshold's colour says that all is well: greens, blues and greys, by name or by value."""
    hexed = re.fullmatch(r"#([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2})(?:[0-9a-fA-F]{2})?", name)
    if hexed:
        red, green, blue = (int(part, 16) for part in hexed.groups())
        return red <= max(green, blue)
    return name.rpartition("-")[2] not in ("red", "orange", "yellow")
