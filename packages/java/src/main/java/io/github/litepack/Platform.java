package io.github.litepack;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.regex.Pattern;

/** This system and processor, as the folders of the jar are called, and the name of the library there. */
final class Platform {
    /** musl's loader, which is its library as well, as a file that the process has in memory. */
    private static final Pattern MUSL = Pattern.compile("(?m)/(ld-musl-[^/]*|libc\\.so)$");

    private final String system;
    private final String processor;

    /**
     * @param name the system property {@code os.name}
     * @param architecture the system property {@code os.arch}
     * @param maps the file in which Linux lists what this process has in memory
     */
    Platform(String name, String architecture, Path maps) {
        String lower = name.toLowerCase(Locale.ROOT);
        if (lower.startsWith("windows")) {
            system = "windows";
        } else if (lower.startsWith("mac")) {
            system = "macos";
        } else {
            system = lower.equals("linux") && hasMusl(maps) ? "musl" : lower;
        }
        String written = architecture.toLowerCase(Locale.ROOT);
        processor = written.equals("amd64") ? "x86_64" : written;
    }

    static Platform here() {
        return new Platform(System.getProperty("os.name"), System.getProperty("os.arch"), Path.of("/proc/self/maps"));
    }

    boolean isWindows() {
        return system.equals("windows");
    }

    String library() {
        switch (system) {
            case "windows":
                return "litepack.dll";
            case "macos":
                return "liblitepack.dylib";
            default:
                return "liblitepack.so";
        }
    }

    /** Linux with musl is "musl". */
    @Override
    public String toString() {
        return system + "-" + processor;
    }

    private static boolean hasMusl(Path maps) {
        try {
            // Names of files may have any bytes in them.
            return MUSL.matcher(new String(Files.readAllBytes(maps), StandardCharsets.ISO_8859_1)).find();
        } catch (IOException unknown) {
            return false;
        }
    }
}
