package io.github.litepack;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URL;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;

/**
 * The library in this jar, as a file that the system can load.
 *
 * <p>It is written to a new folder for temporary files that only this user can enter, and removed when the process
 * ends; on Windows by a later process. Class loaders that have the same version share the file, so that the process has one copy of Litepack, with one
 * cache.
 */
final class Extension {
    /** Where a process keeps the name of the file; another version has another one. */
    private static final String KEY = "io.github.litepack.extension.@VERSION@";

    private Extension() {}

    static Path file() throws SQLException {
        Platform platform = Platform.here();
        URL source = Extension.class.getResource(platform + "/" + platform.library());
        if (source == null) {
            throw new SQLException("litepack: this jar has no binary for " + platform);
        }
        // System properties are what all class loaders share, and this call is atomic.
        try {
            return Path.of((String) System.getProperties().computeIfAbsent(KEY, absent -> write(source, platform).toString()));
        } catch (UncheckedIOException cause) {
            String message = "litepack: the extension cannot be written to a temporary file (the system property "
                    + "java.io.tmpdir names another place): " + cause.getCause();
            throw new SQLException(message, cause);
        }
    }

    private static Path write(URL source, Platform platform) {
        try {
            if (platform.isWindows()) {
                removeLeftovers(Path.of(System.getProperty("java.io.tmpdir")), platform.library(), Duration.ofMinutes(1));
            }
            Path folder = Files.createTempDirectory("litepack-");
            folder.toFile().deleteOnExit();
            Path file = folder.resolve(platform.library());
            file.toFile().deleteOnExit();
            try (InputStream content = source.openStream()) {
                Files.copy(content, file);
            }
            return file;
        } catch (IOException cause) {
            throw new UncheckedIOException(cause);
        }
    }

    /**
     * Windows removes no file of a library that is loaded, so that its process leaves it. Those of running processes cannot
     * be removed, and a folder that was just made may be that of a process that is about to load what is in there.
     */
    static void removeLeftovers(Path temporary, String library, Duration age) throws IOException {
        Instant before = Instant.now().minus(age);
        try (DirectoryStream<Path> folders = Files.newDirectoryStream(temporary, "litepack-*")) {
            for (Path folder : folders) {
                try {
                    boolean old = Files.getLastModifiedTime(folder, LinkOption.NOFOLLOW_LINKS).toInstant().isBefore(before);
                    if (old && Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS)) {
                        // Nothing else is in such a folder. One that has more is not ours, and stays.
                        Files.deleteIfExists(folder.resolve(library));
                        Files.delete(folder);
                    }
                } catch (IOException used) {
                    // By a process that runs.
                }
            }
        }
    }
}
