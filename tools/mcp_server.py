"""An MCP server to point a client at: `python tools/mcp_server.py --user me --memory
DIR`.

The same as `langmem-graph mcp`, with the same options.
"""

import sys

from langmem_graph.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "mcp")
    main()
