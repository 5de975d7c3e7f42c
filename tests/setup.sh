#!/usr/bin/env bash
# Installs what the tests drive and is missing, where it may: Debian and Ubuntu as root or with
# sudo that asks nothing, macOS with Homebrew. Everything else stays as it is, and each missing
# program is named in a line SKIPPED with the tests that do not run without it. `make check` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$PWD
exec </dev/null

say() { printf '\n== %s\n' "$*"; }
skipped() { echo "SKIPPED: $*"; }
have() { command -v "$1" >/dev/null 2>&1; }

# What the tests need: command, Debian package, Homebrew formula (- for none), what is not tested without it.
needs() {
  cat <<'TABLE'
bash     bash      bash      the tests in bash
dash     dash      dash      the tests in dash
zsh      zsh       zsh       the tests in zsh
fish     fish      fish      the tests in fish
busybox  busybox   -         the tests in ash
vim      vim       vim       terminals with vim
less     less      less      terminals with less
htop     htop      htop      terminals with htop
tmux     tmux      tmux      terminals inside tmux
ps       procps    -         tests that list processes
python3  python3   python3   the Python SDK
git      git       git       the tests with binaries of an earlier commit
curl     curl      curl      the HTTP examples
tcsh     tcsh      -         ssh to accounts whose login shell is tcsh
ssh      openssh-client -    sessions on other machines over ssh
gcc      gcc       -         the race detector
ip       iproute2  -         sessions in containers and pods
iptables iptables  -         sessions in containers
dockerd  docker.io -         sessions in containers
runc     runc      -         sessions in a real Kubernetes
ctr      containerd -        sessions in a real Kubernetes
chromium chromium  -         the console in a browser
rpm      rpm       -         the package for Red Hat
dnf      dnf       -         the command that installs it; rpm stands for dnf
ruby     ruby      ruby      the Homebrew formula
openssl  openssl   openssl   the pages about gRPC and the console
systemctl systemd  -         the units for systemd, and the commands of the pages about them
nc.openbsd netcat-openbsd -  the page about the network of a session
perl     perl-base -         limits
npm      npm       node      the TypeScript SDK, MCP with its TypeScript client, screens beside xterm.js
TABLE
}

debian=() brew=()
while read -r command package formula _; do
  have "$command" && continue
  debian+=("$package")
  [ "$formula" = - ] || brew+=("$formula")
done < <(needs)
if have apt-get; then
  # gcc alone cannot link: the race detector needs the C library's headers too.
  [ -e /usr/include/stdlib.h ] || debian+=(libc6-dev)
  # The tests start sshd themselves. Where systemd runs, the package would start one for the network too.
  have sshd || [ -x /usr/sbin/sshd ] || [ -d /run/systemd/system ] || debian+=(openssh-server)
  [ "$(id -u)" -ne 0 ] || [ -e /usr/lib/cni/bridge ] || debian+=(containernetworking-plugins)
  # The virtual machine is emulated on this kind of processor only.
  [ "$(uname -m)" != x86_64 ] || have qemu-system-x86_64 || debian+=(qemu-system-x86)
  # Debian splits what the Python SDK's tests are installed with.
  python3 -c 'import ensurepip' 2>/dev/null || debian+=(python3-venv)
fi

apt() {
  local sudo=()
  [ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@"
}

if have apt-get && [ ${#debian[@]} -gt 0 ]; then
  if [ "$(id -u)" -eq 0 ] || { have sudo && sudo -n true 2>/dev/null; }; then
    say "installing ${debian[*]}"
    apt update -q || echo "the list of packages could not be updated; trying with the old one"
    apt install -q -y --no-install-recommends "${debian[@]}" || echo "not everything could be installed"
  else
    say "to test everything: sudo apt-get install ${debian[*]}"
  fi
elif have brew && [ ${#brew[@]} -gt 0 ]; then
  say "installing ${brew[*]}"
  HOMEBREW_NO_AUTO_UPDATE=1 brew install "${brew[@]}" || echo "not everything could be installed"
fi

say "what is tested with"
go version
while read -r command _ _ without; do
  have "$command" || skipped "$command is not here: $without"
done < <(needs)
have sshd || [ -x /usr/sbin/sshd ] || skipped "sshd is not here (package openssh-server): sessions over ssh"
[ "$(id -u)" -eq 0 ] || skipped "not root: a private sshd with its own passwd, and so sessions over ssh"
have bash-3.2 || [ "$(uname)" = Darwin ] ||
  skipped "bash 3.2, the bash of macOS, is not packaged for Debian: the tests in it"

# Programs that are kept outside of this tree, once for each version: they are not all free software.
kept=${XDG_CACHE_HOME:-$HOME/.cache}
[ "$(uname)" = Darwin ] && kept=$HOME/Library/Caches
kept=$kept/trl-test

# keep NAME FUNCTION ARGUMENT... makes $kept/NAME by calling the function in an empty directory, in
# which it makes a directory NAME. A thing that is there is whole, or not there.
keep() {
  local name=$1 new
  shift
  [ -d "$kept/$name" ] && return
  mkdir -p "$kept" || return
  new=$(mktemp -d "$kept/new.XXXXXX") || return
  if (cd "$new" && mkdir "$name" && "$@" "$name") && { mv "$new/$name" "$kept/" 2>/dev/null || [ -d "$kept/$name" ]; }; then
    rm -rf "$new"
  else
    rm -rf "$new"
    return 1
  fi
}

# from_npm PACKAGE STRIP PATH... NAME unpacks those paths of a package of npm, without the first STRIP parts of their names.
from_npm() {
  local package=$1 strip=$2 name=${!#} paths=("${@:3:$#-3}")
  timeout 900 npm pack --silent "$package" >/dev/null &&
    tar -xzf ./*.tgz -C "$name" --strip-components "$strip" "${paths[@]}" && chmod -R u+rwX "$name"
}

# with_npm PACKAGE NAME installs a package of npm with those that it needs.
with_npm() { timeout 900 npm install --silent --no-audit --no-fund --ignore-scripts --prefer-offline --prefix "$2" "$1" >/dev/null; }

# from_debian PACKAGE NAME unpacks a package of Debian without installing it.
from_debian() {
  apt-get download -q "$1" >/dev/null 2>&1 || { apt update -q >/dev/null && apt-get download -q "$1" >/dev/null; } || return
  dpkg -x ./*.deb "$2"
}

# The ash of busybox-static runs other applets in a fork of itself, without exec. To install it would
# replace busybox.
{ have apt-get && keep busybox-static from_debian busybox-static; } ||
  skipped "busybox-static, a package of Debian, cannot be had: the tests in its ash, limits with cgroup v2 and the units of systemd in a virtual machine"

# To install it would start a server.
{ have apt-get && keep prometheus from_debian prometheus; } ||
  skipped "prometheus, a package of Debian, cannot be had: whether it can read the alerts and the queries of the dashboard"

# kernel_from_debian NAME unpacks the kernel of a virtual machine, without its modules.
kernel_from_debian() {
  local image cloud=linux-image-cloud-amd64
  apt-cache show $cloud >/dev/null 2>&1 || apt update -q >/dev/null || return
  image=$(apt-cache depends $cloud | awk '/Depends: linux-image-/ { print $2 }') || return
  from_debian "$image" package && mv package/boot/vmlinuz-* "$1"
}

say "virtual machine"
if [ "$(uname -sm)" != "Linux x86_64" ]; then
  skipped "the virtual machine is for Linux on x86_64: limits with cgroup v2, the units of systemd"
elif ! have qemu-system-x86_64; then
  skipped "qemu-system-x86_64 is not here (package qemu-system-x86): limits with cgroup v2 and the units of systemd in a virtual machine"
else
  { have apt-get && keep vm-kernel kernel_from_debian && ls "$kept/vm-kernel"; } ||
    skipped "linux-image-cloud-amd64, a package of Debian, cannot be had: limits with cgroup v2 and the units of systemd in a virtual machine"
fi

# from_go PACKAGE@VERSION NAME builds a program of another module.
from_go() { GOBIN=$PWD/$2 go install "$1"; }

say "grpcurl"
v=$(sed -n 's/^const grpcurlVersion = "\(.*\)"/\1/p' tests/grpc/docs_test.go)
{ keep "grpcurl-$v" from_go "github.com/fullstorydev/grpcurl/cmd/grpcurl@v$v" && ls "$kept/grpcurl-$v"; } ||
  skipped "grpcurl $v cannot be built: its commands on the page about gRPC"

# build_kubernetes VERSION PACKAGE PROGRAM NAME builds a program of Kubernetes from its modules. The
# cluster takes about ten minutes on two cores, once.
build_kubernetes() {
  local v=$1 package=$2 out=$PWD/$4/$3 x=k8s.io/component-base/version
  (cd "$tree/tests/kube" && CGO_ENABLED=0 nice go build -buildvcs=false -p 2 -trimpath \
    -ldflags "-s -w -X $x.gitVersion=v$v -X $x.gitMajor=${v%%.*} -X $x.gitMinor=$(echo "$v" | cut -d. -f2)" -o "$out" "$package")
}

say "Kubernetes"
v=$(sed -n 's/^const Version = "\(.*\)"/\1/p' internal/runtimes/kubernetes/clustertest/clustertest.go)
if [ "$(uname)" != Linux ] || [ "$(id -u)" -ne 0 ]; then
  skipped "a cluster needs Linux and root: sessions in a real Kubernetes"
else
  { keep "kubernetes-$v" build_kubernetes "$v" . kubetest && "$kept/kubernetes-$v/kubetest" kubelet --version; } ||
    skipped "Kubernetes $v cannot be built: sessions in a real Kubernetes"
  { keep "kubectl-$v" build_kubernetes "$v" k8s.io/kubernetes/cmd/kubectl kubectl && "$kept/kubectl-$v/kubectl" version --client; } ||
    skipped "kubectl $v cannot be built: a daemon in a real Kubernetes"
fi

# The versions of the agents are those of tests/dialogue/programs.
version() { sed -n "s/.*\t$1 *= \"\([^\"]*\)\".*/\1/p" tests/dialogue/programs/programs.go; }

say "coding agents"
if [ "$(uname -sm)" != "Linux x86_64" ]; then
  skipped "Claude Code and Codex are installed for Linux on x86_64 only: dialogues with the real programs"
elif ! have npm; then
  skipped "npm is not here to install Claude Code and Codex: dialogues with the real programs"
else
  for v in "$(version ClaudeVersion)" "$(version ClaudeOldVersion)"; do
    { keep "claude-$v" from_npm "@anthropic-ai/claude-code-linux-x64@$v" 1 package/claude && "$kept/claude-$v/claude" --version; } ||
      skipped "Claude Code $v cannot be installed or does not run: dialogues with it"
  done
  v=$(version CodexVersion) vendor=package/vendor/x86_64-unknown-linux-musl
  { keep "codex-$v" from_npm "@openai/codex@$v-linux-x64" 3 $vendor/bin/codex $vendor/codex-resources/bwrap $vendor/codex-path $vendor/codex-package.json &&
    "$kept/codex-$v/bin/codex" --version; } ||
    skipped "Codex $v cannot be installed or does not run: dialogues with it"
  v=$(version ClaudeACPVersion)
  { have node && keep "claude-acp-$v" with_npm "@zed-industries/claude-code-acp@$v" && [ -x "$kept/claude-acp-$v/node_modules/.bin/claude-code-acp" ]; } ||
    skipped "claude-code-acp $v cannot be installed: an isolated dialogue with an agent that speaks ACP"
fi
