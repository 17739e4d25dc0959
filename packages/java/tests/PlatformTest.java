package io.github.litepack;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Each platform gets the library that is for it, and what Windows cannot remove is removed later. */
class PlatformTest {
    private static final String GLIBC = "7f00-7f01 r-xp 00000000 00:01 7    /usr/lib/x86_64-linux-gnu/libc.so.6\n";
    private static final String MUSL = "7f00-7f01 r-xp 00000000 00:01 7    /lib/ld-musl-x86_64.so.1\n";
    private static final String MUSL_OF_DEBIAN = "7f00-7f01 r-xp 00000000 00:01 7    /usr/lib/x86_64-linux-musl/libc.so\n";

    @TempDir
    Path folder;

    private Platform on(String name, String architecture, String maps) throws IOException {
        return new Platform(name, architecture, Files.writeString(folder.resolve("maps"), maps));
    }

    @Test
    void eachPlatformHasALibraryOfItsOwn() throws IOException {
        Object[][] all = {
            {on("Linux", "amd64", GLIBC), "linux-x86_64/liblitepack.so"},
            {on("Linux", "aarch64", GLIBC), "linux-aarch64/liblitepack.so"},
            {on("Linux", "amd64", GLIBC + MUSL), "musl-x86_64/liblitepack.so"},
            {on("Linux", "aarch64", MUSL_OF_DEBIAN), "musl-aarch64/liblitepack.so"},
            {on("Windows 11", "amd64", ""), "windows-x86_64/litepack.dll"},
            {on("Mac OS X", "aarch64", ""), "macos-aarch64/liblitepack.dylib"},
            {on("Mac OS X", "x86_64", ""), "macos-x86_64/liblitepack.dylib"},
        };
        int there = 0;
        for (Object[] line : all) {
            Platform platform = (Platform) line[0];
            assertEquals(line[1], platform + "/" + platform.library());
            // Those that the jar was built for.
            if (Platform.class.getResource(platform + "/THIRD-PARTY") != null) {
                assertNotNull(Platform.class.getResource((String) line[1]), (String) line[1]);
                there++;
            }
        }
        assertTrue(there > 0);
    }

    @Test
    void whatEndedProcessesLeftIsRemoved() throws IOException {
        for (String name : List.of("litepack-1/litepack.dll", "litepack-2/more", "other-1/litepack.dll")) {
            Files.createDirectories(folder.resolve(name).getParent());
            Files.createFile(folder.resolve(name));
        }
        Extension.removeLeftovers(folder, "litepack.dll", Duration.ofHours(1));
        assertTrue(Files.exists(folder.resolve("litepack-1/litepack.dll")));
        Extension.removeLeftovers(folder, "litepack.dll", Duration.ofHours(-1));
        assertFalse(Files.exists(folder.resolve("litepack-1")));
        assertTrue(Files.exists(folder.resolve("litepack-2/more")));
        assertTrue(Files.exists(folder.resolve("other-1/litepack.dll")));
    }
}
