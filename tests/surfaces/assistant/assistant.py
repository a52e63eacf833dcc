"""The official client of the Model Context Protocol on ours, over HTTP or over standard input and output of
`spanwise mcp`. Prints what it was answered, as JSON.

    assistant.py URL MODE TRACE OTHER_TRACE SPAN [PROGRAM]
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters


async def main(url, mode, trace, other, span, program=None):
    server = f"{url}/mcp"
    if program:
        server = StdioServerParameters(command=program, args=["mcp", "--url", url])
    calls = [
        ("list_services", {}), ("list_operations", {"limit": 2}),
        ("search_traces", {"q": "{ status = error }"}), ("search_traces", {"service": "front", "limit": 1}),
        ("read_trace", {"trace_id": trace}), ("read_spans", {"trace_id": trace, "span_ids": [span]}),
        ("compare_traces", {"trace_id": trace, "other_trace_id": other}), ("service_graph", {"service": "front"}),
        ("find_cause", {}),
        ("run_sql", {"query": "SELECT service, count(*) AS n FROM spans GROUP BY service ORDER BY service"}),
        ("list_attributes", {}), ("list_attribute_values", {"key": "http.path"}),
        # What is wrong is said to the model, which can then do better.
        ("search_traces", {"q": "{ status = }"}), ("read_trace", {"trace_id": "zz"}), ("run_sql", {}),
        ("search_traces", {"servce": "front"}), ("run_sql", {"query": "DROP TABLE spans"}),
    ]
    async with Client(server, mode=mode) as client:
        tools = await client.list_tools()
        answers = []
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            answers.append([name, bool(result.is_error), "".join(block.text for block in result.content)])
        print(json.dumps({"tools": [tool.name for tool in tools.tools], "version": client.protocol_version,
                          "answers": answers}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
