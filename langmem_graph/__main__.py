"""`python -m langmem_graph` is the console script."""

from langmem_graph.cli.commands import main

if __name__ == "__main__":
    main()
