"""Composition root of the load generator: `locust -f loadtest/locustfile.py`. Nothing else may import this file."""

import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, NoReturn

import gevent
import locust.runners
import locust.stats
from gevent.pywsgi import WSGIServer
from locust import events as locust_events
from locust.argument_parser import ui_extra_args_dict
from locust.runners import MasterRunner, WorkerRunner
from prometheus_client import disable_created_metrics, make_wsgi_app

from loadtest.arguments import add_settings
from loadtest.director import Director
from loadtest.figures import bucket_response_time
from loadtest.generator import REPORT_KEY, LoadGenerator
from loadtest.metrics import registry
from loadtest.prepared import check_files
from loadtest.rows import PATH, RowsError
from loadtest.settings import LoadSettings, SettingsError
from loadtest.target import TargetError, parse_target
from loadtest.trace_file import TraceError
from loadtest.user import ClosedLoopUser, OpenLoopUser
from loadtest.web import attach
from loadtest.worker_report import WorkerReports
from slo.config import SloError
from slo.config import load as load_slo

__all__ = ["ClosedLoopUser", "OpenLoopUser"]  # Locust takes the user classes from here

events: Any = locust_events
REPORT_SECONDS = 1.0  # Locust's workers report every 3 s; a frozen server is to show sooner

# These are Locust's own knobs, and module variables is what they are.
locust.stats.PERCENTILES_TO_CHART = [0.5, 0.95, 0.99]
locust.stats.PERCENTILES_TO_STATISTICS = [0.95, 0.99, 0.999]  # the median has its own column
locust.stats.PERCENTILES_TO_REPORT = [0.5, 0.9, 0.95, 0.99, 0.999, 1.0]
locust.stats.bucket_response_time = bucket_response_time  # type: ignore[assignment]  # it keeps decimals
locust.runners.WORKER_REPORT_INTERVAL = REPORT_SECONDS


class _NotAboutSpawning(logging.Filter):
    """Leaves out the warning that many users at once may cause issues: ours only wait, and it marks every start."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Your selected spawn rate is very high")


logging.getLogger("locust.runners").addFilter(_NotAboutSpawning())


def stop_with(sentence: object) -> NoReturn:
    """The start fails with one sentence."""
    print(f"locust: error: {sentence}", file=sys.stderr)
    sys.exit(2)


def port_from(environment: Mapping[str, str], name: str, default: int) -> int:
    """A port from an environment variable."""
    text = environment.get(name, str(default))
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65_535):
        stop_with(f"{name} is {text!r}; expected a port from 1 to 65535")
    return int(text)


def add_arguments(parser: Any, **_: Any) -> None:
    """Every load setting, on the command line and in the form. Also called at each view of the form."""
    add_settings(parser)
    # Loopback and the stack's ports unless somebody says otherwise; Locust's own defaults are all interfaces.
    parser.set_defaults(
        web_host="127.0.0.1",
        web_port=port_from(os.environ, "LOCUST_PORT", 8089),
        master_bind_host="127.0.0.1",
        class_picker=True,
        enable_rebalancing=True,  # or of the workers that join in mid-run only the first gets users
    )


def compose(environment: Any, runner: Any, web_ui: Any, **_: Any) -> None:
    """Puts the parts together once Locust has made its environment, runner and web UI."""
    interrupt_only_the_main_greenlet()
    options = environment.parsed_options
    try:
        settings = LoadSettings().with_values(vars(options))
        environment.host = environment.host or f"http://127.0.0.1:{port_from(os.environ, 'SERVICE_PORT', 8000)}"
        parse_target(environment.host)
        trace = check_files(settings)
        slo = load_slo(os.environ.get("SLO_FILE", "slo.yaml"))
    except (SettingsError, TargetError, RowsError, TraceError, SloError) as error:
        stop_with(error)

    distributed = isinstance(runner, MasterRunner | WorkerRunner)
    if not isinstance(runner, MasterRunner):
        environment.load_generator = generator = LoadGenerator(environment, slo.duration_edges)
        generator.start()
        report = generator.report
        gc.collect()
        gc.freeze()  # what was made so far stays; a collection that walks it would hold up requests for 40 ms
    if isinstance(runner, WorkerRunner):

        def tell_master(client_id: str, data: dict[str, Any]) -> None:
            data[REPORT_KEY] = report().packed()

        events.report_to_master.add_listener(tell_master)
        return
    if distributed:
        workers = WorkerReports(slo.duration_edges, (PATH,), time.monotonic)
        report = workers.sum

        def hear_worker(client_id: str, data: dict[str, Any]) -> None:
            if client_id not in runner.worker_indexes:
                # Its master is gone, and it still sends that one's load. What restarts it brings it back to this one.
                runner.send_message("quit", client_id=client_id)
                return
            if REPORT_KEY in data:  # the very first may come before the worker has a generator
                workers.receive(client_id, data[REPORT_KEY])

        events.worker_report.add_listener(hear_worker)
        events.test_start.add_listener(lambda **_: workers.begin_run())

    if not options.user_classes:
        # Without a choice Locust would run all classes side by side: an open loop and a closed one in one figure.
        environment.user_classes[:] = [OpenLoopUser]
    options.num_users = settings.default_cap(trace) if options.num_users is None else options.num_users
    options.spawn_rate = float(options.num_users) if options.spawn_rate is None else options.spawn_rate
    director = Director(environment, on_lost=workers.lose if distributed else lambda worker: None)
    director.start()
    if web_ui is not None:
        # Locust ticks all classes by default; what runs then is what was named on the command line, or the open loop.
        default_class = environment.user_classes[0].__name__
        own = ui_extra_args_dict([])
        attach(web_ui.app, environment, director, report, slo.services[0], default_class, own)
    serve_metrics(report)


def interrupt_only_the_main_greenlet() -> None:
    """Ctrl-C ends Locust in its main greenlet; Python would raise it in whichever user happens to run, mid-request."""
    main = gevent.getcurrent()

    def interrupt() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # who presses it again will not wait
        gevent.get_hub().loop.run_callback(main.throw, KeyboardInterrupt)

    gevent.signal_handler(signal.SIGINT, interrupt)


def serve_metrics(report: Any) -> None:
    """Prometheus metrics on their own port, for as long as the process lives."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    host = os.environ.get("LOCUST_METRICS_HOST", "127.0.0.1")
    port = port_from(os.environ, "LOCUST_METRICS_PORT", 9646)
    try:
        WSGIServer((host, port), make_wsgi_app(registry(report)), log=None).start()
    except OSError as error:
        stop_with(f"metrics port {port} on {host}: {error.strerror}; LOCUST_METRICS_PORT moves it")


events.init_command_line_parser.add_listener(add_arguments)
events.init.add_listener(compose)
