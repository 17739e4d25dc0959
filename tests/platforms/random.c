/* bcryptprimitives.dll, which Rust's library takes random bytes from and Debian's wine does not have: for tests only. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG len); /* RtlGenRandom */

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T len)
{
    while (len > 0) {
        ULONG part = len < 1 << 20 ? (ULONG)len : 1 << 20;
        if (!SystemFunction036(buffer, part))
            return FALSE;
        buffer += part;
        len -= part;
    }
    return TRUE;
}
