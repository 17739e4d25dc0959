import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import io.github.litepack.Litepack;
import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.sqlite.SQLiteConfig;

/** What a program that uses sqlite-jdbc does with packed files. packed.db is made by the script that runs this. */
class LitepackTest {
    private static final String MANY = "insert into t with recursive n(i) as (select 1 union all select i + 1 from n "
            + "where i < 500) select hex(randomblob(50)) from n";

    @TempDir
    Path folder;

    @BeforeAll
    static void load() throws SQLException {
        Litepack.load();
    }

    private Path copied() throws Exception {
        return Files.copy(Path.of("packed.db"), folder.resolve("work.db"));
    }

    private static String uri(Path file, String... more) {
        return "jdbc:sqlite:file:" + file + "?vfs=litepack" + String.join("", more);
    }

    private static String one(Connection db, String sql) throws SQLException {
        try (Statement statement = db.createStatement(); ResultSet result = statement.executeQuery(sql)) {
            return result.getString(1);
        }
    }

    private static void run(Connection db, String... statements) throws SQLException {
        try (Statement statement = db.createStatement()) {
            for (String sql : statements) {
                statement.executeUpdate(sql);
            }
        }
    }

    private static boolean isPlain(Path file) throws Exception {
        byte[] head = Files.readAllBytes(file);
        return new String(head, 0, 15, StandardCharsets.ISO_8859_1).equals("SQLite format 3");
    }

    /** A class loader as a servlet container has one for each program: it shares nothing but the JDK. */
    private static URLClassLoader program() throws Exception {
        List<URL> jars = new ArrayList<>();
        for (String jar : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (jar.matches(".*/(litepack|sqlite-jdbc|slf4j-api|slf4j-nop)-[^/]*\\.jar")) {
                jars.add(Path.of(jar).toUri().toURL());
            }
        }
        assertEquals(4, jars.size(), jars.toString());
        return new URLClassLoader(jars.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
    }

    private static Connection connect(ClassLoader loader, String url) throws Exception {
        Class<?> driver = Class.forName("org.sqlite.JDBC", true, loader);
        return ((Driver) driver.getDeclaredConstructor().newInstance()).connect(url, new Properties());
    }

    private static void call(ClassLoader loader, String method) throws Exception {
        Class.forName("io.github.litepack.Litepack", true, loader).getMethod(method).invoke(null);
    }

    @Test
    void withoutLitepackItIsRefused() throws Exception {
        try (URLClassLoader program = program()) {
            String url = "jdbc:sqlite:" + copied();
            SQLException error = assertThrows(SQLException.class, () -> {
                try (Connection db = connect(program, url)) {
                    one(db, "select count(*) from Track");
                }
            });
            assertTrue(error.getMessage().contains("file is not a database"), error.getMessage());
        }
    }

    @Test
    void aDatabaseWithAKeyIsEncrypted() throws Exception {
        for (String key : List.of("correct 'horse'", "raw:" + "0f".repeat(32))) {
            Path file = folder.resolve(key.length() + ".db");
            try (Connection db = Litepack.connect(uri(file), key)) {
                run(db, "create table t(x)", "insert into t values ('canary sings')");
            }
            try (Connection db = Litepack.connect(uri(file), key)) {
                assertEquals("canary sings", one(db, "select x from t"));
            }
            String content = Files.readString(file, StandardCharsets.ISO_8859_1);
            assertTrue(content.startsWith("Litepack") && !content.contains("canary"));
            HikariConfig config = new HikariConfig();
            config.setJdbcUrl(uri(file));
            config.setPassword(key);
            try (HikariDataSource pool = new HikariDataSource(config);
                    Connection db = pool.getConnection()) {
                assertEquals("canary sings", one(db, "select x from t"));
            }
            SQLException wrong = assertThrows(SQLException.class, () -> Litepack.connect(uri(file), "s3cret"));
            assertTrue(wrong.getMessage().contains("wrong key"), wrong.getMessage());
            assertFalse(wrong.getMessage().contains("s3cret"), wrong.getMessage());
        }
        Path plain = folder.resolve("plain.db");
        try (Connection db = DriverManager.getConnection("jdbc:sqlite:" + plain)) {
            run(db, "create table t(x)");
        }
        for (String url : List.of(uri(plain), "jdbc:sqlite:" + plain, uri(copied()), "jdbc:sqlite::memory:")) {
            SQLException needless = assertThrows(SQLException.class, () -> Litepack.connect(url, "s3cret"));
            assertTrue(needless.getMessage().contains("not encrypted"), needless.getMessage());
            assertFalse(needless.getMessage().contains("s3cret"), needless.getMessage());
        }
    }

    @Test
    void aKeyIsNotSentToAServer() throws Exception {
        String digits = "0f".repeat(32);
        for (String query : List.of("%3Fhexkey%3D", "%3fkey%3d1%26HexKey%3d", "?hexkey=")) {
            String url = uri(folder.resolve("a.db"), "&url=http%3A%2F%2F127.0.0.1%3A1%2Fa.db" + query + digits);
            SQLException sent = assertThrows(SQLException.class, () -> Litepack.connect(url, "s3cret"));
            assertTrue(sent.getMessage().contains("the server would get"), sent.getMessage());
            assertFalse(sent.getMessage().contains(digits), sent.getMessage());
        }
        // A key of the server's is another.
        String url = uri(folder.resolve("a.db"), "&url=http%3A%2F%2F127.0.0.1%3A1%2Fa.db%3Fkey%3D1");
        SQLException nobody = assertThrows(SQLException.class, () -> Litepack.connect(url, "s3cret"));
        assertFalse(nobody.getMessage().contains("the server would get"), nobody.getMessage());
    }

    @Test
    void readWriteReopen() throws Exception {
        Path file = copied();
        for (String mode : new String[] {"", "&journal_mode=WAL", "&journal_mode=DELETE"}) {
            try (Connection db = DriverManager.getConnection(uri(file, mode))) {
                int before = Integer.parseInt(one(db, "select count(*) from Track"));
                assertTrue(before > 3490 && before <= 3503, "rows: " + before);
                db.setAutoCommit(false);
                run(db, "delete from Track where TrackId = (select min(TrackId) from Track)");
                db.commit();
                run(db, "delete from Track");
                db.rollback();
                db.setAutoCommit(true);
                assertEquals("" + (before - 1), one(db, "select count(*) from Track"));
                assertEquals("ok", one(db, "pragma integrity_check"));
                assertEquals("ok", one(db, "select litepack_check()"));
                assertEquals(mode.contains("WAL") ? "wal" : "delete", one(db, "pragma journal_mode"));
            }
        }
        try (Connection db = DriverManager.getConnection(uri(file))) {
            assertEquals("3500", one(db, "select count(*) from Track"));
            System.out.println("SQLite " + one(db, "select sqlite_version()"));
        }
        assertFalse(isPlain(file));
    }

    @Test
    void theDefaultStaysAsItIsUntilItIsRegistered() throws Exception {
        try (URLClassLoader program = program()) {
            String url = "jdbc:sqlite:" + copied();
            call(program, "load");
            try (Connection db = connect(program, url)) {
                assertThrows(SQLException.class, () -> one(db, "select count(*) from Track"));
            }
            call(program, "register");
            try (Connection db = connect(program, url)) {
                assertEquals("3503", one(db, "select count(*) from Track"));
            }
            try (Connection db = connect(program, "jdbc:sqlite:" + folder.resolve("new.db"))) {
                run(db, "create table t(x)");
            }
            assertTrue(isPlain(folder.resolve("new.db")));
        }
    }

    @Test
    void newDatabasesByUriArePackedAndPlainOnesStayPlain() throws Exception {
        Path plain = folder.resolve("plain.db");
        Path fresh = folder.resolve("fresh.db");
        for (String url : new String[] {"jdbc:sqlite:" + plain, uri(plain), uri(fresh)}) {
            try (Connection db = DriverManager.getConnection(url)) {
                run(db, "create table if not exists t(x)", "insert into t values (randomblob(5000))");
            }
        }
        assertTrue(isPlain(plain));
        assertFalse(isPlain(fresh));
    }

    @Test
    void sqlConfiguresWhereItMayLoadExtensionsOnly() throws Exception {
        String sql = "select litepack_remote_config('cache_dir_mb', 5)";
        try (Connection db = DriverManager.getConnection("jdbc:sqlite::memory:")) {
            SQLException refused = assertThrows(SQLException.class, () -> one(db, sql));
            assertTrue(refused.getMessage().contains("not authorized"), refused.getMessage());
        }
        SQLiteConfig config = new SQLiteConfig();
        config.enableLoadExtension(true);
        try (Connection db = config.createConnection("jdbc:sqlite::memory:")) {
            assertEquals("5", one(db, sql));
            one(db, "select litepack_remote_config('cache_dir_mb', null)");
        }
    }

    @Test
    void aPool() throws Exception {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(uri(folder.resolve("pool.db"), "&journal_mode=WAL&busy_timeout=600000"));
        config.setMaximumPoolSize(6);
        ExecutorService threads = Executors.newFixedThreadPool(6);
        try (HikariDataSource pool = new HikariDataSource(config)) {
            try (Connection db = pool.getConnection()) {
                run(db, "create table t(id integer primary key, text)");
            }
            Callable<Void> work = () -> {
                for (int i = 0; i < 40; i++) {
                    try (Connection db = pool.getConnection()) {
                        run(db, "insert into t(text) values (hex(randomblob(100)))");
                        assertNotEquals("0", one(db, "select count(*) from t where length(text) = 200"));
                    }
                }
                return null;
            };
            List<Future<Void>> done = threads.invokeAll(List.of(work, work, work, work, work, work));
            for (Future<Void> each : done) {
                each.get();
            }
            try (Connection db = pool.getConnection()) {
                assertEquals("240", one(db, "select count(*) from t"));
                assertEquals("ok", one(db, "select litepack_check()"));
            }
        } finally {
            threads.shutdown();
        }
        assertFalse(isPlain(folder.resolve("pool.db")));
    }

    @Test
    void programsInClassLoadersOfTheirOwn() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        List<Callable<String>> programs = new ArrayList<>();
        for (int number = 0; number < 4; number++) {
            String url = uri(folder.resolve(number + ".db"));
            programs.add(() -> {
                try (URLClassLoader program = program()) {
                    call(program, "load");
                    for (int round = 0; round < 20; round++) {
                        try (Connection db = connect(program, url)) {
                            run(db, "create table if not exists t(x)", "begin");
                            run(db, MANY, "commit");
                            assertEquals("ok", one(db, "select litepack_check()"));
                        }
                    }
                    try (Connection db = connect(program, url)) {
                        return one(db, "select count(*) from t");
                    }
                }
            });
        }
        for (Future<String> each : threads.invokeAll(programs)) {
            assertEquals("10000", each.get());
        }
        threads.shutdown();
        // One copy of Litepack, and a SQLite for each.
        List<String> maps = Files.readAllLines(Path.of("/proc/self/maps"));
        assertEquals(1, maps.stream().filter(line -> line.contains("liblitepack.so"))
                .map(line -> line.replaceAll(".* ", "")).distinct().count());
        assertTrue(maps.stream().filter(line -> line.contains("libsqlitejdbc.so"))
                .map(line -> line.replaceAll(".* ", "")).distinct().count() > 4);
    }

    @Test
    void aConnectionThatMayLoadExtensions() throws Exception {
        SQLiteConfig config = new SQLiteConfig();
        try (Connection db = DriverManager.getConnection("jdbc:sqlite::memory:", config.toProperties())) {
            SQLException error = assertThrows(SQLException.class, () -> Litepack.load(db));
            assertTrue(error.getMessage().contains("not authorized"), error.getMessage());
        }
        config.enableLoadExtension(true);
        try (Connection db = DriverManager.getConnection("jdbc:sqlite::memory:", config.toProperties())) {
            Litepack.load(db);
            assertFalse(one(db, "select litepack_version()").isEmpty());
        }
    }

    @Test
    void theFileBelongsToThisUserOnly() throws Exception {
        Path file = Litepack.extension();
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(file.getParent())));
        assertEquals(file, Litepack.extension());
    }
}
