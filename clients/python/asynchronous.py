"""Writes the client for asyncio from the other one, so that both do the same: asynchronous.py [FILE]"""

import re
import sys
from pathlib import Path

here = Path(__file__).parent / "src" / "fedpost"
source = (here / "_sync.py").read_text()
for find, put in [
    (r"import math\n", "import asyncio\nimport math\n"),
    (r"import httpx\n", "import anyio\nimport httpx\n"),
    (r"_core\.time_limit\(request\)", "anyio.fail_after(_core.TIMEOUT)"),
    (r"\bIterator\b", "AsyncIterator"),
    (r"class Fedpost:", "class AsyncFedpost:"),
    (r'"""A client of one fedpost, such as .*\n', '"""Fedpost for asyncio.\n'),
    (r"httpx\.Client", "httpx.AsyncClient"),
    (r"def __enter__\(self\) -> Fedpost", "async def __aenter__(self) -> AsyncFedpost"),
    (r"def __exit__", "async def __aexit__"),
    (r"    def (call|send|send_many|get|wait_until_done|pages|events|close|_repeated|_once)\(", r"    async def \1("),
    (r"(?<!def )self\.(call|close|_repeated|_once)\(", r"await self.\1("),
    (r"self\._http\.close", "await self._http.aclose"),
    (r"self\._http\.send", "await self._http.send"),
    (r"for chunk in response\.iter_bytes", "async for chunk in response.aiter_bytes"),
    (r"response\.close", "await response.aclose"),
    (r"time\.sleep", "await asyncio.sleep"),
    (r"            yield from page\[field\]", "            for entry in page[field]:\n                yield entry"),
    (r"after a cursor, without end\.", "after a cursor, without end: cancel the task to stop."),
]:
    source, n = re.subn(find, put, source)
    if n == 0:
        sys.exit(f"nothing matches {find}")
text = "# Written by asynchronous.py: change _sync.py.\n" + source
(Path(sys.argv[1]) if len(sys.argv) > 1 else here / "_async.py").write_text(text)
