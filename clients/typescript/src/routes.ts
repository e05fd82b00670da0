// Every operation of docs/openapi.yaml. The compiler refuses a table that lacks one.
import type { operations } from "./api.js";

export type Operation = keyof operations;

/** A method, a path, and whether the call is safe to repeat whatever became of it. */
type Route = readonly [method: "GET" | "POST" | "PUT" | "DELETE", path: string, harmless: boolean];

export const routes: Readonly<Record<Operation, Route>> = {
  sendActivity: ["POST", "/v1/activities", true], // by its deduplication key
  sendActivities: ["POST", "/v1/activities/batch", true],
  checkActivity: ["POST", "/v1/activities/check", true],
  listActivities: ["GET", "/v1/activities", true],
  getActivity: ["GET", "/v1/activities/{id}", true],
  forgetActivity: ["DELETE", "/v1/activities/{id}", false],
  cancelActivities: ["POST", "/v1/activities/cancel", true],
  cancelActivity: ["POST", "/v1/activities/{id}/cancel", true],
  retryActivity: ["POST", "/v1/activities/{id}/retry", true],
  listKeys: ["GET", "/v1/keys", true],
  generateKey: ["POST", "/v1/keys", false],
  getKey: ["GET", "/v1/keys/{id}", true],
  putKey: ["PUT", "/v1/keys/{id}", true],
  deleteKey: ["DELETE", "/v1/keys/{id}", false],
  listEvents: ["GET", "/v1/events", true],
  listWebhooks: ["GET", "/v1/webhooks", true],
  getWebhook: ["GET", "/v1/webhooks/{id}", true],
  putWebhook: ["PUT", "/v1/webhooks/{id}", false], // it may make a secret, which is told once
  deleteWebhook: ["DELETE", "/v1/webhooks/{id}", false],
  testWebhook: ["POST", "/v1/webhooks/{id}/test", false],
  listDeadLetters: ["GET", "/v1/dead-letters", true],
  dropDeadLetters: ["DELETE", "/v1/dead-letters", false],
  retryDeadLetters: ["POST", "/v1/dead-letters/retry", true],
  listOutbox: ["GET", "/v1/outbox", true],
  dropOutbox: ["DELETE", "/v1/outbox", false],
  retryOutbox: ["POST", "/v1/outbox/retry", true],
  listServers: ["GET", "/v1/servers", true],
  getServer: ["GET", "/v1/servers/{host}", true],
  putServer: ["PUT", "/v1/servers/{host}", true],
  forgetServer: ["DELETE", "/v1/servers/{host}", false],
  listWaiting: ["GET", "/v1/servers/{host}/waiting", true],
  blockServer: ["POST", "/v1/servers/{host}/block", true],
  unblockServer: ["POST", "/v1/servers/{host}/unblock", true],
  pauseServer: ["POST", "/v1/servers/{host}/pause", true],
  resumeServer: ["POST", "/v1/servers/{host}/resume", true],
  checkServer: ["POST", "/v1/servers/{host}/check", true],
  getStats: ["GET", "/v1/stats", true],
  getStatsHistory: ["GET", "/v1/stats/history", true],
  listFollows: ["GET", "/v1/follows", true],
  getDiscovery: ["GET", "/discover", true],
  registerServer: ["POST", "/discover", true],
  getHealth: ["GET", "/healthz", true],
};
