"""Client of fedpost, a delivery queue for federated servers."""

from . import types
from ._async import AsyncFedpost
from ._core import FeedEvent
from ._error import FedpostError
from ._routes import Operation
from ._sync import Fedpost
from ._webhook import verify_webhook

__all__ = ["AsyncFedpost", "Fedpost", "FedpostError", "FeedEvent", "Operation", "types", "verify_webhook"]
