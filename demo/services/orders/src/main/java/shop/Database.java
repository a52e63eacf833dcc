package shop;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ConcurrentLinkedDeque;

/** PostgreSQL with at most `size` connections, which all threads share. */
final class Database {
    /** Statements on one connection. */
    interface Statements {
        void update(String sql, Object... values) throws SQLException;
    }

    /** Work that is committed as a whole. */
    interface Work {
        void run(Statements statements) throws SQLException;
    }

    private final String url;
    private final Semaphore slots;
    private final ConcurrentLinkedDeque<Connection> idle = new ConcurrentLinkedDeque<>();

    Database(String url, int size) {
        this.url = url;
        this.slots = new Semaphore(size);
    }

    void update(String sql, Object... values) throws SQLException {
        with(connection -> execute(connection, sql, values));
    }

    void transaction(Work work) throws SQLException {
        with(connection -> {
            connection.setAutoCommit(false);
            try {
                work.run((sql, values) -> execute(connection, sql, values));
                connection.commit();
            } catch (SQLException failure) {
                connection.rollback();
                throw failure;
            } finally {
                connection.setAutoCommit(true);
            }
        });
    }

    private interface OnConnection {
        void run(Connection connection) throws SQLException;
    }

    private void with(OnConnection work) throws SQLException {
        slots.acquireUninterruptibly();
        Connection connection = idle.pollFirst();
        try {
            if (connection == null) {
                connection = DriverManager.getConnection(url);
            }
            work.run(connection);
        } finally {
            if (connection != null && !connection.isClosed()) {
                idle.addFirst(connection);
            }
            slots.release();
        }
    }

    private static void execute(Connection connection, String sql, Object... values) throws SQLException {
        try (Calls.Call call = Calls.made("postgresql", sql.substring(0, sql.indexOf(' ')));
                PreparedStatement statement = connection.prepareStatement(call.inSql(sql))) {
            for (int index = 0; index < values.length; index++) {
                statement.setObject(index + 1, values[index]);
            }
            statement.executeUpdate();
        }
    }
}
