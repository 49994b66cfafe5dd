"""``python -m svmatlas``: the command line."""

import sys

from svmatlas.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
