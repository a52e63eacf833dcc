"""ledger: all payments. Python threads, PostgreSQL."""

from shopkit.databases import Postgres
from shopkit.web import App

app, postgres = App(), Postgres()


@app.route("POST", "/entries")
def add(request):
    row = postgres.query("INSERT INTO ledger (order_key, amount_cents) VALUES (%s, %s) RETURNING id",
                         request.body["order_key"], request.body["amount_cents"])
    return 201, {"entry": row[0]["id"]}


app.serve()
