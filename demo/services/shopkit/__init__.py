"""What the shop's Python services share: a small HTTP server, clients with
pools, and the test's call ids. None of it knows of tracing."""
