"""The journal of a transaction over several databases: as SQLite writes it, and that of an encrypted file."""

import struct

from notes import Damaged, check, met
from sealing import expand, mac, sealed_len, unsealed

MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
MARKS, START, PIECE = (4096, 8192), 12288, 65536


def read(data, packed):
    """SQLite's journal, and whether it is one that counts: of an encrypted file, one with a mark."""
    if not packed.is_encrypted:
        met("journal", "SQLite's")
        return data
    key = expand(packed.secret, b"litepack records")
    signature = lambda content: mac(key, b"litepack journal" + content)[:16]  # noqa: E731
    head = bytes(data[:80])
    check(head[:8] == b"LPjourn\x1a" and signature(head[:64]) == head[64:], "head of the journal")
    version, name_len, identity, salt, length, after = struct.unpack_from("<II16s16sQQ", head, 8)
    check(version == 1 and identity == packed.identity, "a journal of another file")
    met("journal", "sealed")
    number = int.from_bytes(salt[:8], "little")
    check((packed.log_current == 0 and packed.log_end == number) or packed.log_next == after, "an earlier state")
    journal, at = bytearray(), START
    for block in range(-(-length // PIECE)):
        size = sealed_len(packed.secret, min(PIECE, length - len(journal)))
        context = b"litepack journal" + struct.pack("<Q", block)
        journal += unsealed(packed.secret, salt, block, context, bytes(data[at : at + size]))
        at += size
    check(bytes(data[at : at + name_len]) == bytes(journal[len(journal) - name_len :]), "name in the journal")
    marks = 0
    for place in MARKS:
        mark = bytes(data[place : place + 64])
        if mark[:8] == b"LPjmark\x1a" and mark[8:24] == salt and signature(mark[:48]) == mark[48:]:
            marks += 1
            at = struct.unpack_from("<Q", mark, 24)[0]
            journal[at : at + 12] = mark[32:44]
    return bytes(journal) if marks else b""


def super_journal(journal):
    """The name of the file that says whether the transaction still counts."""
    if journal[-8:] != MAGIC:
        return None
    length = struct.unpack(">I", journal[-16:-12])[0]
    return bytes(journal[-16 - length : -16])


def played_back(journal, database):
    """The database before the transaction (https://sqlite.org/fileformat.html#the_rollback_journal)."""
    out, at = bytearray(database), 0
    first = True
    while journal[at : at + 8] == MAGIC:
        records, nonce, pages, sector, page_size = struct.unpack_from(">iIIII", journal, at + 8)
        if first:
            size, first = pages * page_size, False
        at += sector
        if records < 0:
            records = (len(journal) - at) // (page_size + 8)
        for _ in range(records):
            page = struct.unpack_from(">I", journal, at)[0]
            content = journal[at + 4 : at + 4 + page_size]
            wanted = struct.unpack_from(">I", journal, at + 4 + page_size)[0]
            sampled = sum(content[i] for i in range(page_size - 200, 0, -200))
            if nonce + sampled & 0xFFFFFFFF != wanted:
                raise Damaged("checksum in the journal")
            end = page * page_size
            out = out.ljust(end, b"\0")
            out[end - page_size : end] = content
            at += page_size + 8
        at = -(-at // sector) * sector
    return bytes(out) if first else bytes(out[:size])
