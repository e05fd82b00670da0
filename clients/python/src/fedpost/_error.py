from __future__ import annotations

import unicodedata
from typing import Any

from .types import FieldFault

MAX_FAULTS = 100
"""The most faults that are kept; fedpost lists no more."""


class FedpostError(Exception):
    """A refusal of fedpost (RFC 9457), or no answer at all: then ``status`` is 0 and ``__cause__`` says why."""

    def __init__(self, status: int, title: str, problem: dict[str, Any] | None = None, retry_after: float | None = None) -> None:
        given = {name: _cleaned(value) for name, value in (problem or {}).items() if isinstance(value, str)}
        faults = (problem or {}).get("errors")
        self.status = status
        self.type: str = given.get("type", "about:blank")
        """A URI by which programs tell kinds of refusals apart."""
        self.title: str = given.get("title") or _cleaned(title)
        self.detail: str | None = given.get("detail")
        self.errors: list[FieldFault] = [
            {"pointer": _cleaned(e["pointer"]), "detail": _cleaned(e["detail"])} for e in faults[:MAX_FAULTS] if _is_fault(e)
        ] if isinstance(faults, list) else []  # fmt: skip
        """The single faults of the request, each with the JSON pointer of its field."""
        self.id: str | None = given.get("id")
        """The activity that a conflict is with."""
        self.request_id: str | None = given.get("requestId")
        """Finds the request in the logs of fedpost."""
        self.retry_after = retry_after
        """Seconds to wait before the next request, 300 at most, if fedpost says so."""
        says = f"{status} {self.title}" if status else self.title
        if self.detail:
            says += f": {self.detail}"
        more = [f"{e['pointer']}: {e['detail']}" for e in self.errors if e["detail"] not in (self.detail or "")]
        super().__init__("; ".join([says, *more]))


def _is_fault(e: object) -> bool:
    return isinstance(e, dict) and isinstance(e.get("pointer"), str) and isinstance(e.get("detail"), str)


def _cleaned(text: str) -> str:
    """A text from an answer, cut, and without what could disturb a terminal or a log."""
    shown = "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs") else c for c in text[:8000])
    return " ".join(shown.split())[:2000]
