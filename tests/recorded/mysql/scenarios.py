"""MariaDB with its own command line, Python and Java drivers, and hand-written packets; and a
server of MySQL 8's protocol with MySQL's driver.

Needs Debian's mariadb-server and mariadb-client, `pip install pymysql mysql-connector-python`, and
for `jdbc` and `connectorj` a JDK and the drivers of MariaDB (3.4) and MySQL (8.4), whose JARs
MARIADB_JAR and MYSQL_JAR name. No distribution packages MySQL any more. Instead, `connectorj` uses
the example of github.com/dolthub/go-mysql-server (0.18), changed to listen at its first argument,
which GO_MYSQL_SERVER names.
"""

import os
import socket
import subprocess

from relay import Relay, Server, run
from servers import Mariadb

def cli():
    with Mariadb() as server:
        relay = Relay(server.port)
        address = ("mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", relay.port, "-u", "shop",
                   "--skip-ssl", "--local-infile=1", "--force", "--quick")
        statements = [
            "INSERT INTO users VALUES (1, 'geheim'), (2, \"it's hunter2\")",
            "SELECT name FROM users WHERE id = 1 /* route='/users' */",
            "SELECT missing FROM users",
            "INSERT INTO users VALUES (1, 'again')",
            "INSERT INTO users (id) VALUES ('geheim')",
            "SELECT 'geheim' FROM users WHERE ((",
            "SELECT seq, repeat('x', 200) FROM seq_1_to_2000",
            "CALL totals()",
            "USE information_schema",
            "SELECT COUNT(*) FROM `shop`.`users`",
        ]
        run(*address, "-phunter2", "shop", input=";\n".join([*statements, ""]).encode())
        rows = server.directory / "rows.tsv"
        rows.write_text("".join(f"{number}\t{'n' * 100}\n" for number in range(100, 1100)))
        run(*address, "-phunter2", "shop", "-e",
            f"LOAD DATA LOCAL INFILE '{rows}' INTO TABLE users; SELECT COUNT(*) FROM users")
        run(*address, "-pgeheim", "shop", "-e", "SELECT 1")
        run(*address, "-phunter2", "nowhere", "-e", "SELECT 1")
        relay.write("mysql", "cli")


def refused():
    """More connections than the maximum: an error takes the place of the greeting."""
    import pymysql

    with Mariadb() as server:
        root = pymysql.connect(host="127.0.0.1", port=server.port, user="root")
        root.cursor().execute("SET GLOBAL max_connections = 10")
        where = {"host": "127.0.0.1", "user": "shop", "password": "hunter2"}
        relay = Relay(server.port)
        connections = [root]
        try:
            while True:
                connections.append(pymysql.connect(**where, port=server.port))
        except pymysql.err.OperationalError:
            pass
        try:
            pymysql.connect(**where, port=relay.port)
        except pymysql.err.OperationalError:
            pass
        connections.pop().close()
        connections.append(pymysql.connect(**where, port=relay.port))
        for connection in connections:
            connection.close()
        relay.write("mysql", "refused")


def encrypted():
    """One connection that switches to TLS, and one that does not."""
    import ssl

    import pymysql

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with Mariadb(tls=True) as server:
        relay = Relay(server.port)
        where = {"host": "127.0.0.1", "port": relay.port, "user": "shop", "password": "hunter2"}
        for options in ({"ssl": context}, {"ssl_disabled": True}):
            with pymysql.connect(**where, **options) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT 'geheim'")
        relay.write("mysql", "encrypted")


def drivers():
    import mysql.connector
    import pymysql

    with Mariadb() as server:
        relay = Relay(server.port)
        where = {"host": "127.0.0.1", "port": relay.port, "user": "shop", "password": "hunter2"}
        connection = pymysql.connect(**where, database="shop")
        with connection, connection.cursor() as cursor:
            rows = [(number, "geheim") for number in range(3)]
            cursor.executemany("INSERT INTO users (id, name) VALUES (%s, %s)", rows)
            connection.commit()
            cursor.execute("SELECT id, name FROM users WHERE name = %s", ("geheim",))
            cursor.fetchall()
            cursor.execute("INSERT INTO users VALUES (9, %s)", ("geheim" * 600,))
            connection.ping()
            try:
                cursor.execute("INSERT INTO users VALUES (%s, %s)", (1, "geheim"))
            except pymysql.err.IntegrityError:
                pass
            cursor.callproc("totals")
            while cursor.nextset():
                pass
            connection.select_db("mysql")
            cursor.execute("SELECT 1")
        try:
            pymysql.connect(**{**where, "password": "geheim"})
        except pymysql.err.OperationalError:
            pass
        connection = mysql.connector.connect(
            **where, database="shop", ssl_disabled=True, use_pure=True)
        cursor = connection.cursor(prepared=True)
        for total in (5, 7):
            cursor.execute("INSERT INTO orders (total) VALUES (%s)", (total,))
        cursor.execute("SELECT id, total FROM orders WHERE total > %s", (6,))
        cursor.fetchall()
        try:
            cursor.execute("SELECT nothing FROM orders WHERE id = %s", (1,))
        except mysql.connector.Error:
            pass
        cursor.close()
        connection.cmd_change_user(username="shop", password="hunter2", database="mysql")
        connection.cmd_reset_connection()
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM shop.users")
            cursor.fetchall()
        connection.close()
        relay.write("mysql", "drivers")


def packets():
    """Hand-written packets that the drivers above do not send."""
    import pymysql

    with Mariadb() as server:
        relay = Relay(server.port)
        connection = pymysql.connect(
            host="127.0.0.1", port=relay.port, user="shop", password="hunter2", database="shop",
            client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS,
        )
        sock = connection._sock

        def packet(content, sequence=0):
            return len(content).to_bytes(3, "little") + bytes([sequence]) + content

        sock.settimeout(0.2)

        def ask(*contents):
            """Sends commands in one write and reads all responses."""
            sock.sendall(b"".join(packet(content) for content in contents))
            try:
                while sock.recv(65536):
                    pass
            except TimeoutError:
                pass

        ask(b"\x0e")
        ask(b"\x09")
        ask(b"\x03INSERT INTO orders (total) VALUES (1), (2), (3)")
        # Prepared, executed with a cursor, fetched in parts, reset and closed.
        ask(b"\x16SELECT id FROM orders WHERE id > ?")
        first, value = (1).to_bytes(4, "little"), b"\0\1\x03\0\0\0\0\0"
        ask(b"\x17" + first + b"\x01\1\0\0\0" + value)
        ask(b"\x1c" + first + (2).to_bytes(4, "little"))
        ask(b"\x1c" + first + (2).to_bytes(4, "little"))
        ask(b"\x1a" + first)
        sock.sendall(packet(b"\x18" + first + b"\0\0geheim"))
        sock.sendall(packet(b"\x19" + first))
        ask(b"\x17" + first + b"\0\1\0\0\0" + value)
        # Prepared and executed in one write, as the last statement; then three commands in one
        # write.
        ask(b"\x16SELECT total FROM orders", b"\x17\xff\xff\xff\xff\0\1\0\0\0")
        ask(b"\x03SELECT 'geheim'", b"\x03SELECT 2 FROM nowhere", b"\x0e")
        # Several results of one text, the last one an error.
        ask(b"\x03DO 1; SELECT id FROM orders; INSERT INTO orders (total) VALUES (4); "
            b"SELECT nothing")
        ask(b"\x1b\1\0")
        ask(b"\x1f")
        ask(b"\x04orders\0")
        ask(b"\x03SELECT 1 FROM orders")
        ask(b"\x03INSERT INTO users VALUES (1, '" + b"geheim" * 500 + b"')")
        ask(b"\x03SELECT name FROM users")
        ask(b"\x01")
        connection._force_close()
        relay.write("mysql", "packets")


JAVA = """
import java.sql.*;

class Shop {
    static void run(String url) throws Exception {
        try (Connection shop = DriverManager.getConnection(url)) {
            shop.setAutoCommit(false);
            try (PreparedStatement add = shop.prepareStatement(
                    "INSERT INTO users (id, name) VALUES (?, ?)")) {
                for (int id = 0; id < 3; id++) {
                    add.setInt(1, id);
                    add.setString(2, "geheim");
                    add.addBatch();
                }
                add.executeBatch();
            }
            shop.commit();
            for (int round = 0; round < 2; round++)
                try (PreparedStatement find = shop.prepareStatement(
                        "SELECT name FROM users WHERE id = ?")) {
                    find.setInt(1, round);
                    find.executeQuery().next();
                }
            try (Statement all = shop.createStatement()) {
                all.executeUpdate("DELETE FROM users WHERE name = 'geheim'");
                shop.commit();
                all.executeQuery("SELECT * FROM nowhere");
            } catch (SQLException expected) {
                shop.rollback();
            }
        }
    }

    public static void main(String[] url) throws Exception {
        run(url[0]);
        run(url[0] + "&useServerPrepStmts=true&useBulkStmts=true");
    }
}
"""


def jdbc():
    with Mariadb() as server:
        relay = Relay(server.port)
        source = server.directory / "Shop.java"
        source.write_text(JAVA)
        url = f"jdbc:mariadb://127.0.0.1:{relay.port}/shop?user=shop&password=hunter2"
        subprocess.run(
            ["java", "-cp", os.environ["MARIADB_JAR"], source, url], check=True, timeout=60)
        relay.write("mysql", "jdbc")


CONNECTOR = """
import java.sql.*;

class Shop {
    static void run(String url) throws Exception {
        try (Connection shop = DriverManager.getConnection(url)) {
            try (PreparedStatement add = shop.prepareStatement(
                    "INSERT INTO mytable VALUES (?, ?, '[]', now())")) {
                for (int id = 0; id < 3; id++) {
                    add.setString(1, "geheim" + id);
                    add.setString(2, url);
                    add.addBatch();
                }
                add.executeBatch();
            }
            for (int round = 0; round < 2; round++)
                try (PreparedStatement find = shop.prepareStatement(
                        "SELECT email FROM mytable WHERE name = ?")) {
                    find.setString(1, "geheim" + round);
                    find.executeQuery().next();
                }
            try (Statement all = shop.createStatement()) {
                all.executeQuery("SELECT name, 'geheim' FROM mytable").next();
                all.executeUpdate("DELETE FROM mytable WHERE name = 'geheim0'");
                all.executeQuery("SELECT * FROM nowhere");
            } catch (SQLException expected) {
                shop.isValid(1);
            }
        }
    }

    public static void main(String[] url) throws Exception {
        run(url[0]);
        run(url[0] + "&useServerPrepStmts=true&useCursorFetch=true&defaultFetchSize=2");
    }
}
"""


class MysqlLike(Server):
    def start(self):
        return self.spawn(os.environ["GO_MYSQL_SERVER"], f"127.0.0.1:{self.port}")


def connectorj():
    with MysqlLike() as server:
        relay = Relay(server.port)
        source = server.directory / "Shop.java"
        source.write_text(CONNECTOR)
        url = f"jdbc:mysql://127.0.0.1:{relay.port}/mydb?user=root&sslMode=DISABLED"
        subprocess.run(
            ["java", "-cp", os.environ["MYSQL_JAR"], source, url], check=True, timeout=60)
        relay.write("mysql", "connectorj")


SCENARIOS = (cli, refused, encrypted, drivers, packets, jdbc, connectorj)
