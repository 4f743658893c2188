"""`python -m grounding` is the `grounding` command."""

import sys

from grounding.cli import main

sys.exit(main())
