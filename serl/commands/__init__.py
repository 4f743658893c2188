"""One module per command: `add_parser(subparsers)` declares it and sets `run`, its handler."""
