# `make release` fills in the version and the checksums.
class Trl < Formula
  desc "Runs commands for programs and AI agents and reports exactly what happened"
  homepage "https://github.com/trl-dev/trl"
  version "@VERSION@"
  license "MIT"

  on_macos do
    on_arm do
      url "https://github.com/trl-dev/trl/releases/download/v#{version}/trl_#{version}_darwin_arm64.tar.gz"
      sha256 "@SHA256_darwin_arm64@"
    end
    on_intel do
      url "https://github.com/trl-dev/trl/releases/download/v#{version}/trl_#{version}_darwin_amd64.tar.gz"
      sha256 "@SHA256_darwin_amd64@"
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/trl-dev/trl/releases/download/v#{version}/trl_#{version}_linux_arm64.tar.gz"
      sha256 "@SHA256_linux_arm64@"
    end
    on_intel do
      url "https://github.com/trl-dev/trl/releases/download/v#{version}/trl_#{version}_linux_amd64.tar.gz"
      sha256 "@SHA256_linux_amd64@"
    end
  end

  def install
    bin.install "bin/trl"
    man1.install Dir["share/man/man1/*"]
    man7.install Dir["share/man/man7/*"]
    bash_completion.install "share/bash-completion/completions/trl"
    zsh_completion.install "share/zsh/site-functions/_trl"
    fish_completion.install "share/fish/vendor_completions.d/trl.fish"
  end

  test do
    assert_match "hello", shell_output("#{bin}/trl run 'echo hello'")
  ensure
    system bin/"trl", "stop"
  end
end
