package bench.jmh;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import org.h2.jdbcx.JdbcDataSource;

/** The management of courses: a course, and those who take it, from a database in the same process. */
public class Jdbc extends Scenario {
    private static final String COURSE = "SELECT title FROM course WHERE id = ?";
    private static final String STUDENTS = "SELECT name FROM student WHERE course = ?";
    private static final int COURSES = 100;
    private static final int STUDENTS_OF_EACH = 5;

    private Connection connection;
    private int next;

    @Override
    void build() throws Exception {
        JdbcDataSource plain = new JdbcDataSource();
        plain.setURL("jdbc:h2:mem:courses");
        connection = tracing.database(plain).getConnection();
        try (var statement = connection.createStatement()) {
            statement.execute("CREATE TABLE course (id INT PRIMARY KEY, title VARCHAR(80))");
            statement.execute("CREATE TABLE student (id INT PRIMARY KEY, course INT, name VARCHAR(80))");
            statement.execute("CREATE INDEX of_course ON student (course)");
            statement.execute("INSERT INTO course SELECT x, 'course ' || x FROM SYSTEM_RANGE(1, " + COURSES + ")");
            statement.execute("INSERT INTO student SELECT x, MOD(x, " + COURSES + ") + 1, 'student ' || x FROM SYSTEM_RANGE(1, "
                    + COURSES * STUDENTS_OF_EACH + ")");
        }
    }

    @Override
    void tearDown() throws Exception {
        connection.close();
    }

    @Override
    Object work() throws Exception {
        int course = next++ % COURSES + 1;
        return tracing.span("course", () -> rows(COURSE, course) + rows(STUDENTS, course));
    }

    private String rows(String sql, int course) throws Exception {
        return tracing.statement(sql, () -> {
            StringBuilder found = new StringBuilder();
            try (PreparedStatement statement = connection.prepareStatement(sql)) {
                statement.setInt(1, course);
                try (ResultSet rows = statement.executeQuery()) {
                    while (rows.next()) {
                        found.append(rows.getString(1)).append('\n');
                    }
                }
            }
            return found.toString();
        });
    }
}
