# For a tap of Homebrew's. `build` fills in what is between at signs.
class Litepack < Formula
  desc "SQLite databases stored compressed, read and written as usual"
  homepage "https://github.com/litepack/litepack"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "https://github.com/litepack/litepack/releases/download/v@VERSION@/litepack-@VERSION@-aarch64-macos.tar.gz"
      sha256 "@aarch64-macos@"
    end
    on_intel do
      url "https://github.com/litepack/litepack/releases/download/v@VERSION@/litepack-@VERSION@-x86_64-macos.tar.gz"
      sha256 "@x86_64-macos@"
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/litepack/litepack/releases/download/v@VERSION@/litepack-@VERSION@-aarch64-linux-gnu.tar.gz"
      sha256 "@aarch64-linux-gnu@"
    end
    on_intel do
      url "https://github.com/litepack/litepack/releases/download/v@VERSION@/litepack-@VERSION@-x86_64-linux-gnu.tar.gz"
      sha256 "@x86_64-linux-gnu@"
    end
  end

  # `litepack shell` starts it. That of macOS loads no extensions.
  depends_on "sqlite"

  def install
    bin.install Dir["bin/*"]
    lib.install Dir["lib/*"]
    include.install Dir["include/*"]
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/litepack"
    zsh_completion.install "share/zsh/site-functions/_litepack"
    fish_completion.install "share/fish/vendor_completions.d/litepack.fish"
    doc.install Dir["share/doc/litepack/*"]
  end

  test do
    sqlite = Formula["sqlite"].opt_bin/"sqlite3"
    system sqlite, "plain.db", "create table t(x); insert into t values('kept')"
    system bin/"litepack", "pack", "plain.db", "packed.db"
    assert_equal "ok", shell_output("#{bin}/litepack check packed.db").strip
    assert_equal "kept", shell_output("#{bin}/litepack shell --sqlite3 #{sqlite} packed.db 'select x from t'").strip
  end
end
