"""`python -m framelift` is the command `framelift`."""

import sys

from framelift.cli import main

sys.exit(main())
