"""The marks around what memsearch puts into a conversation.

Written by what injects (hooks, MCP), looked for by what captures (sources), so they lie below
both. Part of the hook's path: it imports nothing.
"""

from __future__ import annotations

#: How our own recalled memory begins wherever it is injected; attributes may follow.
MEMORY_FENCE_OPEN = "<memsearch-memory"
#: How it ends.
MEMORY_FENCE_CLOSE = "</memsearch-memory>"
#: The line that tells a model that there is a memory to search.
MEMORY_HINT = "[memsearch] Memory available"
