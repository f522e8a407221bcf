"""Entry point of `python -m fedrepro.cli`, which is the command `fedrepro`."""

import sys

from fedrepro.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
