import io.github.litepack.Litepack;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;

/** Fills a new packed database, and says how small it is. */
public final class Example {
    public static void main(String[] arguments) throws Exception {
        Litepack.load();
        Path file = Path.of("events.db");
        try (Connection db = DriverManager.getConnection("jdbc:sqlite:file:" + file + "?vfs=litepack")) {
            fill(db);
            String sizes = "select (select count(*) from events), page_count * page_size "
                    + "from pragma_page_count, pragma_page_size";
            try (Statement statement = db.createStatement(); ResultSet row = statement.executeQuery(sizes)) {
                System.out.printf("%d events; %d bytes of database in a file of %d%n",
                        row.getLong(1), row.getLong(2), Files.size(file));
            }
        }
    }

    private static void fill(Connection db) throws Exception {
        try (Statement statement = db.createStatement()) {
            statement.executeUpdate("create table events(id integer primary key, path text, ok)");
        }
        db.setAutoCommit(false);
        try (PreparedStatement insert = db.prepareStatement("insert into events(path, ok) values (?, ?)")) {
            for (int i = 0; i < 20000; i++) {
                insert.setString(1, "/item/" + i);
                insert.setBoolean(2, i % 7 != 0);
                insert.executeUpdate();
            }
        }
        db.commit();
        db.setAutoCommit(true);
    }
}
