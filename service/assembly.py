"""Wires the parts together around a model that already runs. `__main__` and the tests both build the service here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from flask import Flask

from service import admin, web
from service.batching.batcher import Batcher
from service.batching.policy import Knobs
from service.batching.records import Runner
from service.delivery import deliver
from service.exposition import Exposition, Facts
from service.handler import Handler
from service.health import Health
from service.ledger import Ledger
from service.links import Link
from service.models import ModelInfo
from service.pages import Pages
from service.protocol.signature import Limits, Output, Signature
from service.records import RequestRecord
from service.settings import Settings
from service.slowest import Slowest
from slo.config import Service, SloFile

VERSION: Final = "0.1.0"
JOB: Final = "inference"  # this service's name in the SLO file


@dataclass(frozen=True, slots=True)
class Assembly:
    """The service's parts; the batcher has not been started."""

    batcher: Batcher
    handler: Handler
    health: Health
    pages: Pages
    web: Flask
    admin: Flask
    ledger: Ledger


def assemble(
    settings: Settings,
    info: ModelInfo,
    runners: Sequence[Runner],
    slo_file: SloFile,
    links: tuple[Link, ...],
    example_row: tuple[float, ...],
) -> Assembly:
    """The whole service around `runners`; SloError if the SLO file does not know it."""
    objective: Service = slo_file.service(JOB)
    signature = _signature(info, settings.model_name)
    ledger = Ledger(web.ROUTES, slo_file.duration_edges, settings.queue_capacity_rows)
    slowest = Slowest()

    def record(ended: RequestRecord) -> None:
        ledger.on_request(ended)
        slowest.on_request(ended)

    batcher = Batcher(
        runners,
        Knobs(settings.batching_policy, settings.max_batch_rows, settings.max_wait_seconds),
        settings.queue_capacity_rows,
        deliver,
        ledger.on_batch,
    )
    batcher.teach(info.cost_samples)
    limits = Limits(settings.max_request_rows, settings.max_request_bytes)
    handler = Handler(signature, limits, settings.request_timeout_seconds, batcher, record)
    health = Health(batcher, lambda: any(runner.up for runner in runners))
    facts = Facts(
        signature.name,
        info.runtime,
        VERSION,
        objective.threshold_seconds,
        objective.objective,
        max(1, settings.model_workers),
        settings.tuned_rate,
    )
    app = web.create_app(web.Services(handler, health, record, lambda: batcher.knobs, links, VERSION, example_row))
    exposition = Exposition(ledger, batcher, handler, facts)
    return Assembly(
        batcher,
        handler,
        health,
        Pages(app, health),
        app,
        admin.create_app(admin.AdminServices(batcher, health, exposition.render, slowest, settings.admin_token)),
        ledger,
    )


def _signature(info: ModelInfo, name: str | None) -> Signature:
    """The model as its callers see it; `name` is the one that was set, if any."""
    return Signature(
        name=name or info.name,
        features=info.features,
        dtype=np.dtype(np.float32) if info.input_dtype == "float32" else np.dtype(np.float64),
        methods=info.methods,
        platform=info.platform,
        version=info.version,
        outputs=tuple(Output(output.name, output.datatype, (-1, *output.row_shape)) for output in info.outputs),
    )
