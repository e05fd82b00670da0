/** Client of fedpost, a delivery queue for federated servers. */
export type { components, operations } from "./api.js";
export * from "./client.js";
export { FedpostError } from "./error.js";
export type { Operation } from "./routes.js";
export { type RequestHeaders, verifyWebhook } from "./webhook.js";
