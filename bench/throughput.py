"""Requests a second and latency of every server at every number of connections, in rounds that take all in turn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.options import Options
from bench.reading import Cell, Reading
from bench.rig import CALIBRATION_SECONDS, NotMeasured, Rig, start_seconds
from bench.servers import Server


@dataclass(slots=True)
class Throughput:
    """What has been measured so far; complete at any moment."""

    servers: list[Server]
    connections: tuple[int, ...]
    readings: dict[tuple[str, int], list[Reading]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)  # key of a server: why it was not measured

    def cells(self, server: Server) -> list[Cell]:
        """The measured cells of one server, by connections."""
        return [
            Cell(server.key, connections, tuple(readings))
            for connections in self.connections
            if (readings := self.readings.get((server.key, connections)))
        ]

    def family(self, family: str, runtime: str) -> list[Cell]:
        """The measured cells of all settings of a family."""
        chosen = [server for server in self.servers if (server.family, server.runtime) == (family, runtime)]
        return [cell for server in chosen for cell in self.cells(server)]

    def server(self, key: str) -> Server:
        return next(server for server in self.servers if server.key == key)


def turns(servers: Sequence[Server], rounds: int) -> Iterator[tuple[int, Server]]:
    """(round, server): every second round goes backwards, so that a slow drift of the machine favours nobody."""
    for number in range(rounds):
        for server in servers if number % 2 == 0 else reversed(servers):
            yield number + 1, server


def turn_seconds(server: Server, options: Options) -> float:
    """Estimate for one server in one round."""
    cells = len(options.connections) * (options.seconds + CALIBRATION_SECONDS)
    return start_seconds(server.family, options) + cells


def estimate(servers: Sequence[Server], options: Options) -> float:
    return options.rounds * sum(turn_seconds(server, options) for server in servers)


def measure(rig: Rig, found: Throughput) -> None:
    """Fills `found`. A server that fails is named there and left out from then on."""
    options = rig.options
    for number, server in turns(found.servers, options.rounds):
        if server.key in found.failures:
            rig.progress.skip(turn_seconds(server, options))
            continue
        try:
            _turn(rig, found, server, f"round {number}/{options.rounds} {server.runtime:<7} {server.label:<22}")
        except NotMeasured as error:
            found.failures[server.key] = str(error)
            rig.progress.say(f"{server.label} ({server.runtime}) was not measured: {error}")


def _turn(rig: Rig, found: Throughput, server: Server, title: str) -> None:
    step = rig.options.seconds + CALIBRATION_SECONDS
    with rig.serving(server) as served:
        rig.warm_up(served)
        rig.progress.done(start_seconds(server.family, rig.options), f"{title} started")
        for connections in rig.options.connections:
            rig.calibrate(f"{server.key} c={connections}")
            reading = rig.load(served, connections, rig.options.seconds)
            found.readings.setdefault((server.key, connections), []).append(reading)
            rig.progress.done(step, f"{title} c={connections:<4} {_shown(reading)}")


def _shown(reading: Reading) -> str:
    p99 = "-" if reading.p99_seconds is None else f"{1000 * reading.p99_seconds:.2f} ms"
    errors = f", {reading.errors} errors" if reading.errors else ""
    return f"{reading.good_per_second:>9,.0f}/s  p99 {p99}{errors}"
