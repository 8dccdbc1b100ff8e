"""What a person reads of a search on the terminal: the plan, how it stands, each trial, and the conclusion. Pure."""

import math

from loadtest.analysis.frontier_file import About
from loadtest.analysis.order import percentile_name
from loadtest.analysis.report import answer
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.knobs import Space
from loadtest.analysis.tuner.proposer import Best
from loadtest.analysis.tuner.trial import Ask, Measured
from loadtest.analysis.verdict import Objective
from loadtest.analysis.words import rate_text, seconds_text, setting_text, share_text, span_text
from loadtest.run.watch import Standing
from loadtest.tune.options import TuneOptions


def plan(options: TuneOptions, space: Space) -> str:
    """What will be done, in a few lines."""
    families = len(space.policies) * len(space.workers) * len(space.runtimes)
    variants = f", in {families} variants" if families > 1 else ""
    waits = ", ".join(setting_text(wait) for wait in space.waits_seconds)
    batches = ", ".join(map(str, space.batch_rows))
    objective = f"{share_text(options.slo.objective)} answered within {setting_text(options.slo.threshold_seconds)}"
    how = "each searched on its own" if options.grid else "narrowed down to the smallest batch that suffices"
    return (
        f"objective: {objective}; the search takes at most {span_text(options.budget_seconds)}\n"
        f"{len(space)} configs: batches of {batches} rows; waits of {waits}{variants}; {how}\n"
        f"first rate {rate_text(options.settings.rate)}/s, {options.settings.rows_per_request} rows a request"
    )


def line(
    ask: Ask, standing: Standing, best: Best | None, left_seconds: float, most_seconds: float, slo: Objective
) -> str:
    """How it stands, on one line; `left_seconds` are expected, `most_seconds` are left of the budget."""
    known = "nothing has passed yet" if best is None else f"best {rate_text(best.rate)}/s with {best.knobs.told()}"
    tail = "–" if math.isnan(standing.p99) else seconds_text(standing.p99)
    left, most = (span_text(max(0.0, round(seconds))) for seconds in (left_seconds, most_seconds))
    return (
        f"about {left} left, {most} at most · {answer.PURPOSES[ask.purpose]}: {ask.knobs.told()} at "
        f"{rate_text(ask.rate)}/s, p99 {tail} ({percentile_name(slo.objective)} may be "
        f"{setting_text(slo.threshold_seconds)}) · {known}"
    )


def trial(measured: Measured, slo: Objective) -> str:
    """What came of one trial, on one line."""
    ask = measured.ask
    why = "" if measured.verdict != "INVALID" or not measured.reasons else f"  {measured.reasons[0]}"
    early = ", ended early" if measured.ended_early and measured.verdict == "FAIL" else ""
    return (
        f"{measured.verdict:<7} {ask.knobs.told():<30} {rate_text(ask.rate):>7}/s  {percentile_name(slo.objective)} "
        f"{seconds_text(measured.p99):>8}  {answer.PURPOSES[ask.purpose]}{early}{why}"
    )


def conclusion(found: Found, said: About) -> str:
    """The answer, or what is the matter instead, what limits it, and whether batching helps."""
    told = [answer.sentence(found, said), found.why, answer.circumstances(found, said), answer.advice(found)]
    told.append(answer.limits(found))
    return "\n" + "\n".join(line for line in (*told, *answer.batching(found)) if line)
