//! Has the system keep the library once it is loaded, where linkers know how: its functions and its VFS stay
//! with SQLite when the connection that loaded it is closed.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(stays_loaded)");
    let is = |key: &str, values: &[&str]| {
        std::env::var(key).is_ok_and(|value| values.contains(&value.as_str()))
    };
    // ELF's DF_1_NODELETE.
    if is(
        "CARGO_CFG_TARGET_OS",
        &[
            "linux",
            "android",
            "freebsd",
            "netbsd",
            "openbsd",
            "dragonfly",
        ],
    ) {
        println!("cargo:rustc-link-arg-cdylib=-Wl,-z,nodelete");
        println!("cargo:rustc-cfg=stays_loaded");
    }
}
