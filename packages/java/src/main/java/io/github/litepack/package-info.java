/** Litepack, which keeps SQLite databases several times smaller on disk, for sqlite-jdbc. */
package io.github.litepack;
