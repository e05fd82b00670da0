import type { components } from "./api.js";

type Problem = components["schemas"]["Problem"];

/** A refusal of fedpost (RFC 9457), or no answer at all: then `status` is 0 and `cause` says why. */
export class FedpostError extends Error {
  override readonly name = "FedpostError";
  readonly status: number;
  /** A URI by which programs tell kinds of refusals apart. */
  readonly type: string;
  readonly title: string;
  readonly detail: string | undefined;
  /** The single faults of the request, each with the JSON pointer of its field. */
  readonly errors: NonNullable<Problem["errors"]>;
  /** The activity that a conflict is with. */
  readonly id: string | undefined;
  /** Finds the request in the logs of fedpost. */
  readonly requestId: string | undefined;
  /** Seconds to wait before the next request, 300 at most, if fedpost says so. */
  readonly retryAfter: number | undefined;

  constructor(problem: Partial<Problem> & { title: string; status: number }, retryAfter?: number, cause?: unknown) {
    const faults = (problem.errors ?? []).filter((e) => !problem.detail?.includes(e.detail));
    const says = [
      `${problem.status === 0 ? "" : `${problem.status} `}${problem.title}${problem.detail ? `: ${problem.detail}` : ""}`,
      ...faults.map((e) => `${e.pointer}: ${e.detail}`),
    ];
    super(says.join("; "), cause === undefined ? undefined : { cause });
    this.status = problem.status;
    this.type = problem.type ?? "about:blank";
    this.title = problem.title;
    this.detail = problem.detail;
    this.errors = problem.errors ?? [];
    this.id = problem.id;
    this.requestId = problem.requestId;
    this.retryAfter = retryAfter;
  }
}
