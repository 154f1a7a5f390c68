"""`python -m minigrad_nn` is the command line of `minigrad_nn.cli`."""

from minigrad_nn.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
