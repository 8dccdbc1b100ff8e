"""Every metric, label and label value that Tailboard exports or queries. These names are a public interface."""

from typing import Final

# --- the service ------------------------------------------------------------------------------------------------
REQUEST_DURATION: Final = "inference_request_duration_seconds"  # {model, route, outcome}
REQUESTS_IN_FLIGHT: Final = "inference_requests_in_flight"
QUEUE_WAIT: Final = "inference_queue_wait_seconds"  # {model}
QUEUE_DEPTH_ROWS: Final = "inference_queue_depth_rows"
QUEUE_CAPACITY_ROWS: Final = "inference_queue_capacity_rows"
BATCH_ROWS: Final = "inference_batch_rows"  # {model, trigger}
MODEL_DURATION: Final = "inference_model_duration_seconds"  # {model}
REJECTED: Final = "inference_rejected_total"  # {reason}
WORKER_RESTARTS: Final = "inference_model_worker_restarts_total"
MAX_BATCH_ROWS: Final = "inference_batching_max_batch_rows"
MAX_WAIT_SECONDS: Final = "inference_batching_max_wait_seconds"
COST_FIXED_SECONDS: Final = "inference_batch_cost_fixed_seconds"
COST_PER_ROW_SECONDS: Final = "inference_batch_cost_per_row_seconds"
MODEL_WORKERS: Final = "inference_model_workers"
TUNED_RATE: Final = "inference_tuned_requests_per_second"
SLO_THRESHOLD_SECONDS: Final = "inference_slo_threshold_seconds"
SLO_OBJECTIVE_RATIO: Final = "inference_slo_objective_ratio"
BUILD_INFO: Final = "inference_build_info"

# --- the load generator -----------------------------------------------------------------------------------------
LOADGEN_REQUEST_DURATION: Final = "loadgen_request_duration_seconds"  # {name, outcome}, from the scheduled instant
LOADGEN_SERVICE_DURATION: Final = "loadgen_service_duration_seconds"  # {name, outcome}, from the actual send
LOADGEN_DISPATCH_LATENESS: Final = "loadgen_dispatch_lateness_seconds"
LOADGEN_ARRIVALS: Final = "loadgen_arrivals_total"  # {state}
LOADGEN_IN_FLIGHT: Final = "loadgen_in_flight"
LOADGEN_OLDEST_IN_FLIGHT: Final = "loadgen_oldest_in_flight_seconds"
LOADGEN_TARGET_RATE: Final = "loadgen_target_rate"

# --- the alert inbox --------------------------------------------------------------------------------------------
INBOX_ALERTS: Final = "inbox_alerts_received_total"  # {alertname, status}

# --- labels and their bounded values ----------------------------------------------------------------------------
OUTCOMES: Final = ("ok", "client_error", "shed", "failed")
TRIGGERS: Final = ("full", "wait", "idle", "deadline", "drain")
REJECT_REASONS: Final = (
    "queue_full",
    "deadline",
    "unlikely",
    "client_gone",
    "draining",
    "invalid",
    "model_down",
)
ARRIVAL_STATES: Final = ("offered", "started", "dropped")
ROUTE_OTHER: Final = "other"
ROUTE_PREDICT: Final = "/predict"
ROUTE_V2_INFER: Final = "/v2/models/{name}/infer"
INFERENCE_ROUTES: Final = (ROUTE_PREDICT, ROUTE_V2_INFER)  # only these count towards the SLO

# --- what Prometheus, its clients and its peers export by themselves ----------------------------------------------
UP: Final = "up"
SCRAPE_DURATION: Final = "scrape_duration_seconds"
ALERTS: Final = "ALERTS"  # {alertname, alertstate, severity, ...}
ALERTS_FOR_STATE: Final = "ALERTS_FOR_STATE"  # the same without alertstate; its value is the instant it became active
PROCESS_CPU: Final = "process_cpu_seconds_total"
PROCESS_MEMORY: Final = "process_resident_memory_bytes"
RULE_EVALUATION_FAILURES: Final = "prometheus_rule_evaluation_failures_total"
RULE_GROUP_DURATION: Final = "prometheus_rule_group_last_duration_seconds"
NOTIFICATIONS: Final = "alertmanager_notifications_total"
NOTIFICATIONS_FAILED: Final = "alertmanager_notifications_failed_total"
