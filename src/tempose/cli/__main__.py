"""``python -m tempose.cli``."""

import sys

from tempose.cli import main

sys.exit(main())
