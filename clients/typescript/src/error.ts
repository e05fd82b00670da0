import type { components } from "./api.js";

type Problem = components["schemas"]["Problem"];

/** The most faults that are kept; fedpost lists no more. */
const maxFaults = 100;

/** A text from an answer, cut, and without what could disturb a terminal or a log. */
function cleaned(text: string): string {
  return text.slice(0, 8000).replace(/[\s\p{Cc}\p{Cf}\p{Co}]+/gu, " ").trim().slice(0, 2000);
}

/** A refusal of fedpost (RFC 9457), or no answer at all: then `status` is 0 and `cause` says why. */
export class FedpostError extends Error {
  override readonly name = "FedpostError";
  readonly status: number;
  /** A URI by which programs distinguish kinds of refusals. */
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
    const { status, type = "about:blank" } = problem;
    const [title, detail, id, requestId] = [problem.title, problem.detail, problem.id, problem.requestId].map((text) => text && cleaned(text)) as [string, ...(string | undefined)[]];
    const errors = (problem.errors ?? []).slice(0, maxFaults).map((e) => ({ pointer: cleaned(e.pointer), detail: cleaned(e.detail) }));
    const says = [`${status === 0 ? "" : `${status} `}${title}${detail ? `: ${detail}` : ""}`, ...errors.filter((e) => !detail?.includes(e.detail)).map((e) => `${e.pointer}: ${e.detail}`)];
    super(says.join("; "), cause === undefined ? undefined : { cause });
    this.status = status;
    this.type = cleaned(type);
    this.title = title;
    this.detail = detail;
    this.errors = errors;
    this.id = id;
    this.requestId = requestId;
    this.retryAfter = retryAfter;
  }
}
