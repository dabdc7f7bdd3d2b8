"""``python -m tempose``."""

import sys

from tempose.cli import main

sys.exit(main())
