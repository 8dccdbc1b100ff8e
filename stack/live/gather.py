"""One page's data: its queries run side by side and bounded, every panel drawn or explained."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any, Final

from slo.expressions import ROUTES_REGEX, selector
from slo.names import REQUEST_DURATION
from stack.live.dashboard import Dashboard, Panel, Target
from stack.live.intervals import Window, built_in_variables, duration_text, parse_window
from stack.live.panels import Answer, Drawn, Mark, draw
from stack.live.plan import Query, annotation_query, marks_of, panel_queries
from stack.live.prometheus import Prometheus, PrometheusError, Unreachable
from stack.live.series import Series
from stack.live.shared import SharedResults
from stack.live.variables import Choice, UnknownVariable, label_query, resolve

QUERIES_AT_ONCE: Final = 8
_KEEP_SECONDS: Final = 4.0
_MOST_KEPT: Final = 1000


@dataclass(frozen=True, slots=True)
class Wish:
    """What a viewer asks for."""

    start: str = "now-15m"
    end: str = "now"
    variables: Mapping[str, Sequence[str]] | None = None
    open_rows: frozenset[int] = frozenset()  # collapsed rows that this viewer has opened


class Gatherer:
    """Asks Prometheus on behalf of all viewers."""

    def __init__(
        self,
        prometheus: Prometheus,
        scrape_seconds: float,
        page_seconds: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._prometheus = prometheus
        self._scrape_seconds = scrape_seconds
        self._page_seconds = page_seconds
        self._now = now
        self._pool = ThreadPoolExecutor(QUERIES_AT_ONCE, thread_name_prefix="query")
        self._shared = SharedResults(self._pool, _KEEP_SECONDS, _MOST_KEPT)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._prometheus.close()

    def page(self, dashboard: Dashboard, wish: Wish) -> dict[str, Any]:
        """Everything the browser draws, within `page_seconds`. ValueError for a time range that is none."""
        now = self._now()
        window = parse_window(wish.start, wish.end, now)
        deadline = time.monotonic() + self._page_seconds
        page: dict[str, Any] = {
            "version": dashboard.version,
            "now": round(now * 1000),
            "window": {"start": round(window.start * 1000), "end": round(window.end * 1000), "live": window.live},
            "variables": [],
            "firing": [],
        }
        # One question first: when nobody answers it, nothing else is asked, and the page knows within one timeout.
        try:
            page["status"] = self._status(window, deadline)
        except Unreachable as error:
            page["status"] = {"state": "no_prometheus", "message": str(error)}
            page["panels"] = {}
            return page
        except PrometheusError as error:
            page["status"] = {"state": "query", "message": f"asking for traffic failed: {error}"}
        choices, trouble = self._choices(dashboard, window, wish.variables or {}, deadline)
        if trouble:
            page["status"] = {"state": "variable", "message": trouble}
        page["variables"] = [_picker(choice) for choice in choices.values() if _is_picked(choice)]
        panels = [
            panel
            for section in dashboard.sections
            if not section.collapsed or section.id in wish.open_rows
            for panel in section.panels
        ]
        asked = {panel.id: self._ask_panel(panel, window, choices) for panel in panels}
        marks, missed = self._marks(dashboard, window, choices, deadline)
        page["firing"] = [
            {"title": mark.title, "text": mark.text, "since": None if mark.earlier else round(mark.start * 1000)}
            for mark in marks
            if mark.ongoing
        ]
        page["panels"] = {
            str(panel.id): {
                **self._drawn(panel, asked[panel.id], window, marks, deadline).payload(),
                "queries": [query.expr for _, query, _ in asked[panel.id].queries],
            }
            for panel in panels
        }
        if missed and page["status"]["state"] == "ok":
            page["status"] = {"state": "annotation", "message": missed}
        return page

    # --- asking -------------------------------------------------------------------------------------------------

    def _ask(self, query: Query) -> "Future[tuple[Series, ...]]":
        if query.instant:
            return self._shared.ask(query, lambda: self._prometheus.query(query.expr, query.window.end))
        return self._shared.ask(query, lambda: self._prometheus.query_range(query.expr, query.window, query.step))

    def _ask_panel(self, panel: Panel, window: Window, choices: Mapping[str, Choice]) -> "_Asked":
        try:
            queries = panel_queries(panel, window, choices, self._scrape_seconds)
        except UnknownVariable as error:
            return _Asked((), str(error))
        return _Asked(tuple((target, query, self._ask(query)) for target, query in queries))

    def _status(self, window: Window, deadline: float) -> dict[str, str]:
        """Whether the service has answered anything in this window: what a person asks first of an empty page."""
        requests = selector(f"{REQUEST_DURATION}_count", route=f"=~{ROUTES_REGEX}")
        expr = f"sum(increase({requests}[{duration_text(round(window.seconds))}]))"
        end = window.aligned(self._scrape_seconds).end
        asked = self._ask(Query(expr, Window(end, end, window.live), self._scrape_seconds, instant=True))
        series = _wait(asked, deadline)
        last = series[0].last() if series else None
        if last is None:
            return {"state": "no_service", "message": "Prometheus has no requests of the service in this time range"}
        if last[1] <= 0:
            return {"state": "no_traffic", "message": "The service answered no request in this time range"}
        return {"state": "ok", "message": ""}

    def _choices(
        self, dashboard: Dashboard, window: Window, asked: Mapping[str, Sequence[str]], deadline: float
    ) -> tuple[dict[str, Choice], str]:
        """(every variable's choice, what went wrong with their queries)."""
        trouble: list[str] = []
        built_in = built_in_variables(window, self._scrape_seconds, self._scrape_seconds)
        # Label values change seldom: minutes are fine enough, and make the question one that can be shared.
        minutes = window.aligned(60)

        def options_of(query: str) -> Sequence[str]:
            parsed = label_query(query)
            if parsed is None:
                trouble.append(f"the variable query {query!r} is not supported; expected label_values(…)")
                return ()
            selector, label = parsed
            found = self._shared.ask((parsed, minutes), lambda: self._prometheus.label_values(label, selector, minutes))
            try:
                return tuple(_wait(found, deadline))
            except PrometheusError as error:
                trouble.append(f"the variable query {query!r} failed: {error}")
                return ()

        try:
            return resolve(dashboard.variables, asked, built_in, options_of), "; ".join(trouble)
        except UnknownVariable as error:
            return {}, str(error)

    def _marks(
        self, dashboard: Dashboard, window: Window, choices: Mapping[str, Choice], deadline: float
    ) -> tuple[list[Mark], str]:
        marks: list[Mark] = []
        missed = ""
        asked = []
        for annotation in dashboard.annotations:
            try:
                query = annotation_query(annotation, window, choices, self._scrape_seconds)
            except UnknownVariable as error:
                missed = f"the annotation {annotation.name!r} cannot be asked for: {error}"
                continue
            asked.append((annotation, query, self._ask(query)))
        for annotation, query, future in asked:
            try:
                marks += marks_of(annotation, query, _wait(future, deadline))
            except PrometheusError as error:
                missed = f"the annotation {annotation.name!r} is not shown: {error}"
        return marks, missed

    def _drawn(self, panel: Panel, asked: "_Asked", window: Window, marks: Sequence[Mark], deadline: float) -> Drawn:
        if asked.trouble:
            return Drawn("message", "error", asked.trouble)
        answers = []
        for target, query, future in asked.queries:
            try:
                answers.append(Answer(target, _wait(future, deadline), query.window, query.step))
            except PrometheusError as error:
                return Drawn("message", "error", f"Query {target.ref_id} failed: {error}")
        return draw(panel, answers, window, marks)


@dataclass(frozen=True, slots=True)
class _Asked:
    queries: "tuple[tuple[Target, Query, Future[tuple[Series, ...]]], ...]"
    trouble: str = ""


def _wait(future: "Future[Any]", deadline: float) -> Any:
    """The result, not waited for beyond the page's deadline; what has not begun by then is not begun at all."""
    try:
        return future.result(timeout=max(0.0, deadline - time.monotonic()))
    except (FutureTimeout, CancelledError):
        future.cancel()
        raise Unreachable("Prometheus is slow: the page did not wait for this query") from None


def _is_picked(choice: Choice) -> bool:
    return choice.variable.type in ("query", "custom", "interval") and not choice.variable.hidden


def _picker(choice: Choice) -> dict[str, Any]:
    variable = choice.variable
    return {
        "name": variable.name,
        "label": variable.label or variable.name,
        "options": list(choice.options),
        "chosen": list(choice.chosen),
        "multi": variable.multi,
        "all": variable.include_all,
    }
