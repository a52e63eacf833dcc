"""The common part of the shop's Python services: a small HTTP server, clients with pools, and call
ids for tests. It knows nothing of tracing.
"""
