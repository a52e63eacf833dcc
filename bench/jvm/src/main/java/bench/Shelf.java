package bench;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;

/**
 * The program whose requests are measured with and without the agent: a Tomcat, in which a request
 * asks a database in memory for the items of a shelf. A request makes two spans. It says its port,
 * and ends when its standard input does.
 */
public final class Shelf {
  private static final String DATABASE = "jdbc:h2:mem:shelves;DB_CLOSE_DELAY=-1";
  private static final int SHELVES = 1000;
  /** So many that a request takes about as long as those on which other agents were measured. */
  private static final int ITEMS_OF_SHELF = Integer.getInteger("bench.items", 20);
  // java.util.logging forgets loggers that nobody holds.
  private static final Logger LOG = Logger.getLogger("org.apache");

  private Shelf() {}

  public static void main(String[] none) throws Exception {
    LOG.setLevel(Level.WARNING);
    fill();
    File directory = Files.createTempDirectory("shelf").toFile();
    directory.deleteOnExit();
    Tomcat tomcat = new Tomcat();
    tomcat.setBaseDir(directory.getPath());
    tomcat.setPort(0);
    tomcat.getConnector().setProperty("address", "127.0.0.1");
    // A connection is kept for as long as it is used.
    tomcat.getConnector().setProperty("maxKeepAliveRequests", "-1");
    Context context = tomcat.addContext("", directory.getPath());
    Tomcat.addServlet(context, "shelf", new Items()).setLoadOnStartup(1);
    context.addServletMappingDecoded("/shelf/*", "shelf");
    tomcat.start();
    System.out.println("port " + tomcat.getConnector().getLocalPort());
    while (System.in.read() >= 0) {
      // Nothing is said to us until the end.
    }
    System.exit(0);
  }

  private static void fill() throws SQLException {
    try (Connection connection = DriverManager.getConnection(DATABASE)) {
      connection.createStatement().execute(
          "create table item (id int primary key, shelf int, name varchar(40), price int)");
      connection.createStatement().execute("create index of_shelf on item (shelf)");
      try (PreparedStatement insert = connection.prepareStatement("insert into item values (?, ?, ?, ?)")) {
        for (int item = 0; item < SHELVES * ITEMS_OF_SHELF; item++) {
          insert.setInt(1, item);
          insert.setInt(2, 1 + item % SHELVES);
          insert.setString(3, "item number " + item);
          insert.setInt(4, item * 7919 % 10_000);
          insert.addBatch();
        }
        insert.executeBatch();
      }
    }
  }

  private static final class Items extends HttpServlet {
    private static final long serialVersionUID = 1;
    /** As a pool gives each thread a connection that nobody else uses. */
    private static final ThreadLocal<Connection> OPEN = new ThreadLocal<>();

    private static Connection connection() throws SQLException {
      Connection mine = OPEN.get();
      if (mine == null) {
        mine = DriverManager.getConnection(DATABASE);
        OPEN.set(mine);
      }
      return mine;
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
      int shelf = Integer.parseInt(request.getPathInfo().substring(1));
      StringBuilder answer = new StringBuilder("[");
      try (PreparedStatement statement =
          connection().prepareStatement("select id, name, price from item where shelf = ? order by price")) {
        statement.setInt(1, shelf);
        try (ResultSet rows = statement.executeQuery()) {
          while (rows.next()) {
            answer.append(answer.length() > 1 ? "," : "").append("{\"id\":").append(rows.getInt(1))
                .append(",\"name\":\"").append(rows.getString(2)).append("\",\"price\":").append(rows.getInt(3))
                .append('}');
          }
        }
      } catch (SQLException failure) {
        throw new IOException(failure);
      }
      response.setContentType("application/json");
      response.getWriter().append(answer).append(']');
    }
  }
}
