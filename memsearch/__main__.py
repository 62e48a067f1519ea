"""``python -m memsearch``."""

from memsearch._entry import main

main()
