"""stock: the number of pieces of each product. Python threads, with counts in Redis and records in
PostgreSQL.
"""

from shopkit.databases import Postgres, Redis
from shopkit.web import App

app, postgres, redis = App(), Postgres(), Redis()


def left(product):
    """Pieces in stock: the count in Redis, or in PostgreSQL if Redis has none yet."""
    count = redis.command("GET", f"stock:{product}")
    if count is None:
        rows = postgres.query("SELECT pieces FROM stock WHERE product_id = %s", product)
        count = rows[0]["pieces"] if rows else 0
        redis.command("SET", f"stock:{product}", count, "NX")
    return int(count)


@app.route("GET", "/stock/(\\d+)")
def stock(request):
    product = int(request.groups[0])
    return 200, {"product": product, "pieces": left(product)}


@app.route("POST", "/reservations")
def reserve(request):
    for line in request.body["lines"]:
        if left(line["product"]) < line["quantity"]:
            return 409, {"error": f"only {left(line['product'])} of product {line['product']} left"}
    for line in request.body["lines"]:
        redis.command("DECRBY", f"stock:{line['product']}", line["quantity"])
        postgres.query("INSERT INTO movements (product_id, pieces, order_key) VALUES (%s, %s, %s)",
                       line["product"], -line["quantity"], request.body["order_key"])
    return 200, {"reserved": len(request.body["lines"])}


app.serve()
