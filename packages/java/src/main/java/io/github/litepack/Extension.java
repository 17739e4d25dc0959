package io.github.litepack;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.SQLException;
import java.util.Locale;

/**
 * The library in this jar, as a file that the system can load.
 *
 * <p>It is written to a new folder for temporary files that only this user can enter, and removed when the process
 * ends. Class loaders that have the same version share the file, so that the process has one copy of Litepack, with one
 * cache.
 */
final class Extension {
    private static final String NAME = "liblitepack.so";

    /** Where a process keeps the name of the file; another version has another one. */
    private static final String KEY = "io.github.litepack.extension.@VERSION@";

    private Extension() {}

    static Path file() throws SQLException {
        String resource = platform() + "/" + NAME;
        URL source = Extension.class.getResource(resource);
        if (source == null) {
            throw new SQLException("litepack: this jar has no binary for " + platform());
        }
        // System properties are what all class loaders share, and this call is atomic.
        try {
            return Path.of((String) System.getProperties().computeIfAbsent(KEY, absent -> write(source).toString()));
        } catch (UncheckedIOException cause) {
            String message = "litepack: the extension cannot be written to a temporary file (the system property "
                    + "java.io.tmpdir names another place): " + cause.getCause();
            throw new SQLException(message, cause);
        }
    }

    private static Path write(URL source) {
        try {
            Path folder = Files.createTempDirectory("litepack-");
            folder.toFile().deleteOnExit();
            Path file = folder.resolve(NAME);
            file.toFile().deleteOnExit();
            try (InputStream content = source.openStream()) {
                Files.copy(content, file);
            }
            return file;
        } catch (IOException cause) {
            throw new UncheckedIOException(cause);
        }
    }

    /** As the folders of the jar are called. */
    private static String platform() {
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String processor = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        if (processor.equals("amd64")) {
            processor = "x86_64";
        }
        return system + "-" + processor;
    }
}
