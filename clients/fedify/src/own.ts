// What is no activity to send goes to the application's own queue, which alone decides what is promised for it.
import type { MessageQueue, MessageQueueEnqueueOptions } from "@fedify/fedify";

/** A queue with the promises that Fedify 2.4 asks for; the types of 2.3 lack them. */
export interface OwnQueue extends MessageQueue {
  readonly nativeDeduplication?: boolean;
  readonly atomicEnqueueMany?: boolean;
}

export interface EnqueueOptions extends MessageQueueEnqueueOptions {
  /** Of two messages, or two batches, with one key, the second is dropped (Fedify 2.4). */
  readonly deduplicationKey?: string;
}

/** Whether a queue takes all messages of a batch or none. Without a word of its own, one with `enqueueMany` does: so Fedify 2.4 defines it. */
export function isAtomic(queue: OwnQueue): boolean {
  return queue.enqueueMany !== undefined && queue.atomicEnqueueMany !== false;
}

/** Hands messages to a queue: together if it can take them so, else one by one. */
export function handOver(queue: OwnQueue, messages: unknown[], options: EnqueueOptions | undefined): Promise<void>[] {
  if (messages.length > 1 && queue.enqueueMany) return [queue.enqueueMany(messages, options)];
  return messages.map((m) => queue.enqueue(m, options));
}

/** Waits for all, and then throws what failed. */
export async function all(calls: Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(calls);
  const errors = [...new Set(results.flatMap((r) => (r.status === "rejected" ? [r.reason as unknown] : [])))];
  if (errors.length > 1) throw new AggregateError(errors, "Some messages could not be enqueued.");
  if (errors.length === 1) throw errors[0];
}
