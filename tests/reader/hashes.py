"""XXH3-64, XXH3-128 and XXH64, written out from their specification: the checksums of docs/format.md."""

import struct

M64 = (1 << 64) - 1
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MX1, MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def le64(data, at=0):
    return int.from_bytes(data[at : at + 8], "little")


def le32(data, at=0):
    return int.from_bytes(data[at : at + 4], "little")


def swapped(value, size):
    return int.from_bytes(value.to_bytes(size, "little"), "big")


def turned(value, by):
    return (value << by | value >> (64 - by)) & M64


def fold(a, b):
    product = a * b
    return (product & M64) ^ (product >> 64)


def avalanche(h):
    h ^= h >> 37
    h = h * MX1 & M64
    return h ^ h >> 32


def avalanche64(h):
    h ^= h >> 33
    h = h * P2 & M64
    h ^= h >> 29
    h = h * P3 & M64
    return h ^ h >> 32


def mix(data, at, secret, seed):
    a = le64(data, at) ^ (le64(SECRET, secret) + seed & M64)
    b = le64(data, at + 8) ^ (le64(SECRET, secret + 8) - seed & M64)
    return fold(a, b)


def secret_of(seed):
    out = bytearray()
    for at in range(0, 192, 16):
        out += ((le64(SECRET, at) + seed) & M64).to_bytes(8, "little")
        out += ((le64(SECRET, at + 8) - seed) & M64).to_bytes(8, "little")
    return bytes(out)


def accumulated(data, secret):
    """The eight sums of what is longer than 240 bytes."""
    sums = [P32_3, P1, P2, P3, P4, P32_2, P5, P32_1]
    keys = [struct.unpack_from("<8Q", secret, 8 * i) for i in range(16)]
    last = struct.unpack_from("<8Q", secret, 128)

    def stripe(at, key):
        values = struct.unpack_from("<8Q", data, at)
        for i in range(8):
            mixed = values[i] ^ key[i]
            sums[i ^ 1] = sums[i ^ 1] + values[i] & M64
            sums[i] = sums[i] + (mixed & 0xFFFFFFFF) * (mixed >> 32) & M64

    blocks = (len(data) - 1) // 1024
    for block in range(blocks):
        for i in range(16):
            stripe(1024 * block + 64 * i, keys[i])
        for i in range(8):
            sums[i] = (sums[i] ^ sums[i] >> 47 ^ last[i]) * P32_1 & M64
    for i in range((len(data) - 1 - 1024 * blocks) // 64):
        stripe(1024 * blocks + 64 * i, keys[i])
    stripe(len(data) - 64, struct.unpack_from("<8Q", secret, 192 - 64 - 7))
    return sums


def merged(sums, secret, at, start):
    for i in range(0, 8, 2):
        start += fold(sums[i] ^ le64(secret, at + 8 * i), sums[i + 1] ^ le64(secret, at + 8 * i + 8))
    return avalanche(start & M64)


def xxh3(data, seed=0):
    """XXH3-64."""
    n = len(data)
    if n == 0:
        return avalanche64(seed ^ le64(SECRET, 56) ^ le64(SECRET, 64))
    if n <= 3:
        combined = data[0] << 16 | data[n >> 1] << 24 | data[-1] | n << 8
        return avalanche64(combined ^ ((le32(SECRET) ^ le32(SECRET, 4)) + seed & M64))
    if n <= 8:
        seed ^= swapped(seed & 0xFFFFFFFF, 4) << 32
        flip = (le64(SECRET, 8) ^ le64(SECRET, 16)) - seed & M64
        h = le32(data, n - 4) + (le32(data) << 32) ^ flip
        h ^= turned(h, 49) ^ turned(h, 24)
        h = h * MX2 & M64
        h ^= (h >> 35) + n
        h = h * MX2 & M64
        return h ^ h >> 28
    if n <= 16:
        low = le64(data) ^ ((le64(SECRET, 24) ^ le64(SECRET, 32)) + seed & M64)
        high = le64(data, n - 8) ^ ((le64(SECRET, 40) ^ le64(SECRET, 48)) - seed & M64)
        return avalanche(n + swapped(low, 8) + high + fold(low, high) & M64)
    if n <= 128:
        total = n * P1
        for i in range((n - 1) // 32, -1, -1):
            total += mix(data, 16 * i, 32 * i, seed) + mix(data, n - 16 * (i + 1), 32 * i + 16, seed)
        return avalanche(total & M64)
    if n <= 240:
        total = n * P1 + sum(mix(data, 16 * i, 16 * i, seed) for i in range(8))
        total = avalanche(total & M64)
        total += sum(mix(data, 16 * i, 16 * (i - 8) + 3, seed) for i in range(8, n // 16))
        return avalanche(total + mix(data, n - 16, 136 - 17, seed) & M64)
    secret = secret_of(seed) if seed else SECRET
    return merged(accumulated(data, secret), secret, 11, n * P1 & M64)


def xxh3_128(data):
    """XXH3-128 of more than 240 bytes, seed 0."""
    assert len(data) > 240
    sums = accumulated(data, SECRET)
    low = merged(sums, SECRET, 11, len(data) * P1 & M64)
    high = merged(sums, SECRET, 192 - 64 - 11, ~(len(data) * P2) & M64)
    return high << 64 | low


def xxh64(data, seed=0):
    n, at = len(data), 0

    def rounded(acc, lane):
        return turned(acc + lane * P2 & M64, 31) * P1 & M64

    if n >= 32:
        lanes = [seed + P1 + P2 & M64, seed + P2 & M64, seed, seed - P1 & M64]
        while at + 32 <= n:
            lanes = [rounded(lane, le64(data, at + 8 * i)) for i, lane in enumerate(lanes)]
            at += 32
        h = sum(turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & M64
        for lane in lanes:
            h = (h ^ rounded(0, lane)) * P1 + P4 & M64
    else:
        h = seed + P5 & M64
    h = h + n & M64
    while at + 8 <= n:
        h = turned(h ^ rounded(0, le64(data, at)), 27) * P1 + P4 & M64
        at += 8
    if at + 4 <= n:
        h = turned(h ^ le32(data, at) * P1 & M64, 23) * P2 + P3 & M64
        at += 4
    for byte in data[at:]:
        h = turned(h ^ byte * P5 & M64, 11) * P1 & M64
    return avalanche64(h)
