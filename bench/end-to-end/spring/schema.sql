-- 1000 orders with two lines each, and 200 products.
CREATE TABLE products (id int PRIMARY KEY, name text NOT NULL, pieces int NOT NULL);
CREATE TABLE orders (id int PRIMARY KEY, customer text NOT NULL);
CREATE TABLE lines (order_id int REFERENCES orders, product int REFERENCES products, quantity int NOT NULL,
                    PRIMARY KEY (order_id, product));
INSERT INTO products SELECT id, 'product ' || id, id * 7 % 100 FROM generate_series(1, 200) id;
INSERT INTO orders SELECT id, 'customer ' || id % 300 FROM generate_series(1, 1000) id;
INSERT INTO lines SELECT id, 1 + (id * 13 + line * 50) % 200, 1 + line FROM generate_series(1, 1000) id,
                         generate_series(0, 1) line;
ANALYZE;
