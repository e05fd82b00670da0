"""Every operation of docs/openapi.yaml: its method, its path, and whether it is safe to repeat."""

from typing import Literal, TypeAlias

Operation: TypeAlias = Literal[
    "sendActivity", "sendActivities", "checkActivity", "listActivities", "getActivity", "forgetActivity", "cancelActivities", "cancelActivity",
    "retryActivity", "listKeys", "generateKey", "getKey", "putKey", "deleteKey", "listEvents", "listWebhooks",
    "getWebhook", "putWebhook", "deleteWebhook", "testWebhook", "listDeadLetters", "dropDeadLetters",
    "retryDeadLetters", "listOutbox", "dropOutbox", "retryOutbox", "listServers", "getServer", "putServer", "forgetServer", "listWaiting", "blockServer",
    "unblockServer", "pauseServer", "resumeServer", "checkServer", "getStats", "getStatsHistory", "listFollows",
    "getDiscovery", "registerServer", "getHealth",
]  # fmt: skip

ROUTES: dict[Operation, tuple[str, str, bool]] = {
    "sendActivity": ("POST", "/v1/activities", True),  # by its deduplication key
    "sendActivities": ("POST", "/v1/activities/batch", True),
    "checkActivity": ("POST", "/v1/activities/check", True),
    "listActivities": ("GET", "/v1/activities", True),
    "getActivity": ("GET", "/v1/activities/{id}", True),
    "forgetActivity": ("DELETE", "/v1/activities/{id}", False),
    "cancelActivities": ("POST", "/v1/activities/cancel", True),
    "cancelActivity": ("POST", "/v1/activities/{id}/cancel", True),
    "retryActivity": ("POST", "/v1/activities/{id}/retry", True),
    "listKeys": ("GET", "/v1/keys", True),
    "generateKey": ("POST", "/v1/keys", False),
    "getKey": ("GET", "/v1/keys/{id}", True),
    "putKey": ("PUT", "/v1/keys/{id}", True),
    "deleteKey": ("DELETE", "/v1/keys/{id}", False),
    "listEvents": ("GET", "/v1/events", True),
    "listWebhooks": ("GET", "/v1/webhooks", True),
    "getWebhook": ("GET", "/v1/webhooks/{id}", True),
    "putWebhook": ("PUT", "/v1/webhooks/{id}", False),  # it may make a secret, which is shown once
    "deleteWebhook": ("DELETE", "/v1/webhooks/{id}", False),
    "testWebhook": ("POST", "/v1/webhooks/{id}/test", False),
    "listDeadLetters": ("GET", "/v1/dead-letters", True),
    "dropDeadLetters": ("DELETE", "/v1/dead-letters", False),
    "retryDeadLetters": ("POST", "/v1/dead-letters/retry", True),
    "listOutbox": ("GET", "/v1/outbox", True),
    "dropOutbox": ("DELETE", "/v1/outbox", False),
    "retryOutbox": ("POST", "/v1/outbox/retry", True),
    "listServers": ("GET", "/v1/servers", True),
    "getServer": ("GET", "/v1/servers/{host}", True),
    "putServer": ("PUT", "/v1/servers/{host}", True),
    "forgetServer": ("DELETE", "/v1/servers/{host}", False),
    "listWaiting": ("GET", "/v1/servers/{host}/waiting", True),
    "blockServer": ("POST", "/v1/servers/{host}/block", True),
    "unblockServer": ("POST", "/v1/servers/{host}/unblock", True),
    "pauseServer": ("POST", "/v1/servers/{host}/pause", True),
    "resumeServer": ("POST", "/v1/servers/{host}/resume", True),
    "checkServer": ("POST", "/v1/servers/{host}/check", True),
    "getStats": ("GET", "/v1/stats", True),
    "getStatsHistory": ("GET", "/v1/stats/history", True),
    "listFollows": ("GET", "/v1/follows", True),
    "getDiscovery": ("GET", "/discover", True),
    "registerServer": ("POST", "/discover", True),
    "getHealth": ("GET", "/healthz", True),
}
