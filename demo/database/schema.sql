-- The shop's tables and products. Created anew at every start.
CREATE TABLE products (
    id          integer PRIMARY KEY,
    name        text    NOT NULL,
    category    text    NOT NULL,
    price_cents integer NOT NULL,
    description text    NOT NULL
);

INSERT INTO products
SELECT id,
       (ARRAY['Oak', 'Walnut', 'Linen', 'Copper', 'Slate', 'Wool'])[1 + id % 6] || ' '
           || (ARRAY['lamp', 'chair', 'kettle', 'rug', 'shelf', 'clock', 'mug'])[1 + id % 7],
       (ARRAY['lighting', 'furniture', 'kitchen', 'textiles', 'storage'])[1 + id % 5],
       900 + (id * 7919) % 24000,
       'Made by hand, number ' || id || ', ' || repeat(md5(id::text) || ' ', 4)
FROM generate_series(1, 200) AS id;

CREATE TABLE stock (
    product_id integer PRIMARY KEY REFERENCES products,
    pieces     integer NOT NULL
);

INSERT INTO stock SELECT id, 1000000 FROM products;

CREATE TABLE movements (
    id         bigserial PRIMARY KEY,
    product_id integer   NOT NULL REFERENCES products,
    pieces     integer   NOT NULL,
    order_key  text      NOT NULL
);

CREATE TABLE orders (
    order_key   text        PRIMARY KEY,
    customer    text        NOT NULL,
    total_cents integer     NOT NULL,
    status      text        NOT NULL DEFAULT 'new',
    placed_at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE order_lines (
    order_key  text    NOT NULL REFERENCES orders,
    product_id integer NOT NULL REFERENCES products,
    quantity   integer NOT NULL
);

CREATE TABLE ledger (
    id           bigserial PRIMARY KEY,
    order_key    text      NOT NULL,
    amount_cents integer   NOT NULL
);
