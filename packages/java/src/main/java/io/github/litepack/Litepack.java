package io.github.litepack;

import java.nio.file.Path;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;
import java.util.regex.Pattern;

/**
 * Loads Litepack into SQLite, so that packed files can be opened by JDBC.
 *
 * <pre>{@code
 * Litepack.load();
 * Connection db = DriverManager.getConnection("jdbc:sqlite:file:packed.db?vfs=litepack");
 * }</pre>
 *
 * <p>Load it before a database is opened: SQLite decides how to read a file when it opens it. Once is enough for the
 * life of the process and for all connections, those of pools included; loading again does no harm. Packed files and
 * plain databases open alike, and stay what they are.
 */
public final class Litepack {
    private static final String DRIVER = "org.sqlite.JDBC";

    private static final Pattern KEY_IN_QUERY = Pattern.compile("(?is)\\?(.*&)?hexkey=");

    private Litepack() {}

    /**
     * Loads Litepack into the SQLite of sqlite-jdbc. URLs choose it: {@code jdbc:sqlite:file:packed.db?vfs=litepack}. A
     * new database that is opened by such a URL is a packed file.
     *
     * <p>The sqlite-jdbc is the one that this class's own class loader finds, or else the thread's context class loader.
     *
     * @throws SQLException if there is no sqlite-jdbc, no binary for this system, or no place to load it from
     */
    public static void load() throws SQLException {
        load("sqlite3_litepack_init");
    }

    /**
     * Does the same, and makes Litepack the default VFS: {@code jdbc:sqlite:packed.db} opens a packed file. A new
     * database that is opened so is plain, unless the SQL function {@code litepack_new_databases('packed')} was called, on
     * a connection that may load extensions (in sqlite-jdbc, {@code SQLiteConfig.enableLoadExtension(true)}).
     *
     * @throws SQLException as {@link #load()}
     */
    public static void register() throws SQLException {
        load("sqlite3_litepackdefault_init");
    }

    /**
     * Loads Litepack into the SQLite of a connection that may load extensions (in sqlite-jdbc, {@code
     * SQLiteConfig.enableLoadExtension(true)}). This is for drivers that {@link #load()} does not find.
     *
     * @param connection any connection; one to {@code :memory:} will do
     * @throws SQLException as {@link #load()}, or if the connection may not load extensions
     */
    public static void load(Connection connection) throws SQLException {
        load(connection, "sqlite3_litepack_init");
    }

    /**
     * Opens an encrypted database, or makes a new one that is encrypted. The key goes to the driver as the property {@code
     * password}, as a pool may give it. This method also makes sure that the database is encrypted: a database that
     * Litepack did not open knows no keys, and the driver does not notice.
     *
     * @param url the URL, which chooses Litepack: {@code jdbc:sqlite:file:app.db?vfs=litepack}
     * @param key a passphrase; or a raw key as {@code raw:} and 64 hexadecimal digits
     * @return the connection
     * @throws SQLException if the key is wrong, or the database is not encrypted; it names no key
     */
    public static Connection connect(String url, String key) throws SQLException {
        if (key == null || key.isEmpty() || key.indexOf('\0') >= 0) {
            throw new SQLException("litepack: a key is a text that is not empty, without null characters");
        }
        expectKeyStaysHere(url);
        load();
        Properties properties = new Properties();
        properties.setProperty("password", key);
        Connection connection = driver().connect(url, properties);
        if (connection == null) {
            throw new SQLException("litepack: the URL begins with jdbc:sqlite:");
        }
        try (Statement statement = connection.createStatement()) {
            // Where nobody knows the pragma it has no row, and no column either. Other libraries have answers of theirs.
            ResultSet answer = statement.execute("pragma cipher_version") ? statement.getResultSet() : null;
            if (answer == null || !answer.next() || !answer.getString(1).startsWith("litepack ")) {
                throw new SQLException("litepack: there is a key, and the database is not encrypted by Litepack");
            }
        } catch (SQLException | RuntimeException failure) {
            connection.close();
            throw failure;
        }
        return connection;
    }

    /**
     * The extension as a file, for SQLite libraries that are not used by JDBC. It is removed when the process ends.
     *
     * @return the library, whose entry points are {@code sqlite3_litepack_init}, {@code sqlite3_litepackdefault_init} and
     *     {@code sqlite3_litepackconfigure_init}
     * @throws SQLException if there is no binary for this system, or no place to write it to
     */
    public static Path extension() throws SQLException {
        return Extension.file();
    }

    /** A key in the query of the URL that is the value of {@code url=} would be sent to the server. */
    private static void expectKeyStaysHere(String url) throws SQLException {
        for (String parameter : url.substring(url.indexOf('?') + 1).split("&")) {
            String location = parameter.startsWith("url=") ? parameter.replaceAll("(?i)%3f", "?") : "";
            if (KEY_IN_QUERY.matcher(location.replaceAll("%26", "&").replaceAll("(?i)%3d", "=")).find()) {
                throw new SQLException("litepack: the URL of the file has hexkey= in its own query, which the server would "
                        + "get: give the key to connect() alone");
            }
        }
    }

    private static void load(String entryPoint) throws SQLException {
        Properties mayLoadExtensions = new Properties();
        mayLoadExtensions.setProperty("enable_load_extension", "true");
        try (Connection connection = driver().connect("jdbc:sqlite::memory:", mayLoadExtensions)) {
            load(connection, entryPoint);
        }
    }

    private static void load(Connection connection, String entryPoint) throws SQLException {
        Path file = Extension.file();
        try (PreparedStatement statement = connection.prepareStatement("select load_extension(?, ?)")) {
            statement.setString(1, file.toString());
            statement.setString(2, entryPoint);
            statement.execute();
        } catch (SQLException cause) {
            String message = "litepack: the extension cannot be loaded from " + file + " (the system property "
                    + "java.io.tmpdir names another place, if this one does not allow that): " + cause.getMessage();
            throw new SQLException(message, cause.getSQLState(), cause.getErrorCode(), cause);
        }
    }

    /** Not by DriverManager, which only gives drivers that its caller's class loader knows. */
    private static Driver driver() throws SQLException {
        ClassLoader[] loaders = {Litepack.class.getClassLoader(), Thread.currentThread().getContextClassLoader()};
        for (ClassLoader loader : loaders) {
            try {
                return (Driver) Class.forName(DRIVER, true, loader).getDeclaredConstructor().newInstance();
            } catch (ClassNotFoundException notHere) {
                // The next one.
            } catch (ReflectiveOperationException cause) {
                throw new SQLException("litepack: " + DRIVER + " does not start", cause);
            }
        }
        throw new SQLException("litepack: there is no sqlite-jdbc (" + DRIVER + ") for this class loader");
    }
}
