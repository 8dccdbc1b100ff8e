"""The API's document, OpenAPI 3.1, with the served model's own numbers in it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from service.protocol import v2
from service.protocol.signature import Limits, Signature

Schema = dict[str, Any]

JSON: Final = "application/json"
OCTETS: Final = "application/octet-stream"
_ERRORS: Final[Mapping[int, str]] = {
    400: "The request is wrong: shape, type, NaN, unknown key or parameter.",
    404: "No such model or route.",
    405: "The method is not allowed here.",
    408: "The body did not arrive in time.",
    413: "More rows or bytes than one request may have.",
    415: "A stated Content-Type that is not understood.",
    429: "The queue is full, or the deadline cannot be met; try again after Retry-After seconds.",
    500: "The model itself failed on these rows.",
    503: "Draining, or the model's worker is down.",
    504: "The deadline passed.",
}
_INFERENCE_ERRORS: Final = (400, 408, 413, 415, 429, 500, 503, 504)


def document(signature: Signature, limits: Limits, version: str, example: Sequence[float]) -> dict[str, Any]:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tailboard model service",
            "version": version,
            "description": f"Serves the model `{signature.name}` ({signature.platform}) through a micro-batcher.",
        },
        "paths": {
            "/predict": {"post": _predict(signature, limits, example)},
            "/v2": {"get": _get("Server metadata", {"type": "object"})},
            "/v2/health/live": {"get": _get("Is the server alive?", _flag("live"), 503)},
            "/v2/health/ready": {"get": _get("Is the server ready?", _flag("ready"), 503)},
            "/v2/models/{name}": {
                "parameters": [_name(signature)],
                "get": _get("Model metadata", {"type": "object"}, 404),
            },
            "/v2/models/{name}/ready": {
                "parameters": [_name(signature)],
                "get": _get("Is the model ready?", _flag("ready"), 404, 503),
            },
            "/v2/models/{name}/infer": {
                "parameters": [_name(signature)],
                "post": _infer(signature, limits, example),
            },
            "/v2/repository/index": {"post": _repository_index(signature)},
            "/healthz": {"get": _get("Is the server alive?", _flag("live"), 503)},
            "/readyz": {"get": _get("Is the server ready?", _flag("ready"), 503)},
            "/openapi.json": {"get": _get("This document", {"type": "object"})},
            "/": {
                "get": {
                    "summary": "The page for people",
                    "operationId": "page",
                    "responses": {
                        "200": {"description": "HTML", "content": {"text/html": {"schema": {"type": "string"}}}}
                    },
                }
            },
        },
        "components": {
            "schemas": {
                "Error": _object({"error": {"type": "string", "description": "What is wrong and what was expected."}})
            }
        },
    }


def _predict(signature: Signature, limits: Limits, example: Sequence[float]) -> Schema:
    body = _object(
        {
            "instances": {"type": "array", "items": _row(signature), "minItems": 1, "maxItems": limits.rows},
            "method": {"enum": list(signature.methods), "default": signature.methods[0]},
        },
        required=["instances"],
    )
    reply = _object({"predictions": {"type": "array", "description": "One entry per instance, in order."}})
    return {
        "summary": "Predict for rows of numbers",
        "operationId": "predict",
        "parameters": _headers(),
        "requestBody": {
            "required": True,
            "content": {JSON: {"schema": body, "example": {"instances": [list(example)]}}},
        },
        "responses": {"200": _ok(JSON, reply), **_errors(*_INFERENCE_ERRORS)},
    }


def _infer(signature: Signature, limits: Limits, example: Sequence[float]) -> Schema:
    tensor = _object(
        {
            "name": {"const": v2.INPUT_NAME},
            "shape": {
                "type": "array",
                "prefixItems": [
                    {"type": "integer", "minimum": 1, "maximum": limits.rows},
                    {"const": signature.features} if signature.features else {"type": "integer", "minimum": 1},
                ],
                "minItems": 2,
                "maxItems": 2,
            },
            "datatype": {"enum": list(v2.DATATYPES)},
            "parameters": _optional(
                "binary_data_size", {"type": "integer", "description": "Its bytes follow the JSON."}
            ),
            "data": {"type": "array", "description": "Row-major numbers, flat or nested, that the datatype can hold."},
        },
        required=["name", "shape", "datatype"],
    )
    as_bytes = {"type": "boolean", "description": "As bytes behind the JSON?"}
    output = _object(
        {"name": {"enum": list(signature.methods)}, "parameters": _optional("binary_data", as_bytes)}, required=["name"]
    )
    body = _object(
        {
            "id": {"type": "string"},
            "parameters": _optional("binary_data_output", as_bytes),
            "inputs": {"type": "array", "items": tensor, "minItems": 1, "maxItems": 1},
            "outputs": {"type": "array", "items": output, "description": "Each once; all where none is named."},
            "model_name": {"const": signature.name},
        },
        required=["inputs"],
    )
    shown = {
        "inputs": [
            {
                "name": v2.INPUT_NAME,
                "shape": [1, len(example)],
                "datatype": v2.datatype(signature.dtype),
                "data": list(example),
            }
        ]
    }
    reply = _object(
        {
            "model_name": {"type": "string"},
            "model_version": {"type": "string"},
            "id": {"type": "string"},
            "outputs": {"type": "array", "items": {"type": "object"}},
        },
        required=["model_name", "outputs"],
    )
    binary = {"schema": {"type": "string", "format": "binary", "description": "JSON, then the tensors' bytes."}}
    length = {
        "name": v2.HEADER_LENGTH,
        "in": "header",
        "schema": {"type": "integer", "minimum": 1},
        "description": "Where the JSON ends, if tensors follow it as bytes.",
    }
    return {
        "summary": "Open Inference Protocol v2 inference",
        "operationId": "infer",
        "parameters": [*_headers(), length],
        "requestBody": {"required": True, "content": {JSON: {"schema": body, "example": shown}, OCTETS: binary}},
        "responses": {
            "200": {"description": "Output tensors", "content": {JSON: {"schema": reply}, OCTETS: binary}},
            **_errors(404, *_INFERENCE_ERRORS),
        },
    }


def _repository_index(signature: Signature) -> Schema:
    entry = _object(
        {
            "name": {"const": signature.name},
            "version": {"const": signature.version},
            "state": {"enum": ["READY", "UNAVAILABLE"]},
            "reason": {"type": "string", "description": "Why it is unavailable."},
        }
    )
    return {
        "summary": "The models here, by name",
        "operationId": "repositoryIndex",
        "description": "There is one, ready or not; the request needs no body, and none is looked at.",
        "responses": {"200": _ok(JSON, {"type": "array", "items": entry, "minItems": 1, "maxItems": 1})},
    }


def _row(signature: Signature) -> Schema:
    row: Schema = {"type": "array", "items": {"type": "number"}, "minItems": signature.features or 1}
    if signature.features:
        row["maxItems"] = signature.features
    return row


def _headers() -> list[Schema]:
    return [
        {
            "name": "X-Request-Timeout-Ms",
            "in": "header",
            "schema": {"type": "number", "exclusiveMinimum": 0},
            "description": "May only tighten the service's own deadline.",
        },
        {
            "name": "traceparent",
            "in": "header",
            "schema": {"type": "string"},
            "description": "W3C trace context; its trace id is shown by /admin/slowest.",
        },
    ]


def _name(signature: Signature) -> Schema:
    return {
        "name": "name",
        "in": "path",
        "required": True,
        "schema": {"type": "string"},
        "example": signature.name,
        "description": f"The served model's name, {signature.name}.",
    }


def _get(summary: str, schema: Schema, *errors: int, media: str = JSON) -> Schema:
    return {"summary": summary, "responses": {"200": _ok(media, schema), **_errors(*errors)}}


def _ok(media: str, schema: Schema) -> Schema:
    return {"description": "OK", "content": {media: {"schema": schema}}}


def _errors(*statuses: int) -> Schema:
    reference = {"$ref": "#/components/schemas/Error"}
    return {
        str(status): {"description": _ERRORS[status], "content": {JSON: {"schema": reference}}}
        for status in sorted(statuses)
    }


def _flag(name: str) -> Schema:
    return _object({name: {"const": True}})


def _optional(name: str, schema: Schema) -> Schema:
    """Parameters of the v2 protocol, of which only `name` is known."""
    return _object({name: schema}, required=[])


def _object(properties: Schema, required: Sequence[str] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else list(required),
        "additionalProperties": False,
    }
