# Loads a formula as Homebrew does, with as much of its language as the formula of TRL uses. Every other
# word is an error.
#
#   ruby brew.rb FORMULA OS ARCH info       prints the address and the checksum of the archive
#   ruby brew.rb FORMULA OS ARCH install    in an unpacked archive: installs into $PREFIX, runs the test
require "fileutils"
require "pathname"

FORMULA, SYSTEM, ARCH, ACTION = ARGV

class Pathname
  def install(*sources)
    mkpath
    raise "nothing to install into #{self}" if sources.flatten.empty?
    sources.flatten.each { |s| FileUtils.cp(s, self) }
  end
end

class Formula
  class << self
    def desc(text)
      raise "desc: too long, or begins with an article" if text.length > 80 || text =~ /\A(a|an|the) /i
    end

    def homepage(_) end

    def license(_) end

    { version: nil, url: nil, sha256: /\A\h{64}\z/ }.each do |word, pattern|
      define_method(word) do |value = nil|
        return instance_variable_get("@#{word}") || raise("#{word}: not set yet") unless value
        raise "#{word}: #{value}" if pattern && value !~ pattern
        instance_variable_set("@#{word}", value)
      end
    end

    { on_macos: [:SYSTEM, "darwin"], on_linux: [:SYSTEM, "linux"], on_arm: [:ARCH, "arm64"], on_intel: [:ARCH, "amd64"] }.each do |word, (name, value)|
      define_method(word) { |&block| block.call if Object.const_get(name) == value }
    end

    def test(&block) define_method(:test, &block) end
  end

  def prefix; Pathname.new(ENV.fetch("PREFIX")) end
  def bin; prefix/"bin" end
  def man1; prefix/"share/man/man1" end
  def man7; prefix/"share/man/man7" end
  def bash_completion; prefix/"etc/bash_completion.d" end
  def zsh_completion; prefix/"share/zsh/site-functions" end
  def fish_completion; prefix/"share/fish/vendor_completions.d" end

  def shell_output(command)
    text = `#{command}`
    raise "#{command}: #{$?}" unless $?.success?
    text
  end

  def system(*argv) Kernel.system(*argv.map(&:to_s)) || raise("#{argv.join(" ")}: #{$?}") end

  def assert_match(want, got) raise "#{got.inspect} has no #{want}" unless got.include?(want) end
end

load FORMULA
case ACTION
when "info" then puts "#{Trl.url} #{Trl.sha256}"
when "install"
  Trl.new.install
  Trl.new.test
end
