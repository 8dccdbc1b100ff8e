#!/usr/bin/env bash
# stand_ins.sh WORK_DIRECTORY PREFIX : images that stand in for the ones docker-compose.yml pins, where no registry of
# images can be reached. They come from Debian's packages: trixie for Python 3.13, sid for the newest HAProxy, Prometheus
# and Alertmanager. Tags made: PREFIX/python, /haproxy, /prometheus, /alertmanager.
# Packages are fetched by the machine's apt into directories of our own and only unpacked, none is configured: that takes
# seconds where debootstrap takes minutes on a busy machine, and needs no root.
set -euo pipefail
work=$1 prefix=$2
root=$work/root
mkdir -p "$work" "$root"

say() { echo "stand-ins: $*" >&2; }

# The machine's own mirror, so that this works wherever apt does.
# shellcheck disable=SC2016  # apt expands it
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
[ -n "$mirror" ] || { say "apt knows no Debian mirror; run apt-get update first"; exit 1; }

fetch() { # fetch SUITE PACKAGE... : the packages and all that they depend on, into $work/SUITE/cache/archives
    local suite=$1 apt=$work/$1
    shift
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
    cat >"$apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferencesparts "-";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::State::extended_states "$apt/extended_states";
Dir::Cache "$apt/cache";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
APT::Update::Post-Invoke-Success "";
Acquire::Languages "none";
Debug::NoLocking "true";
CONF
    {
        APT_CONFIG=$apt/apt.conf apt-get -q update &&
            APT_CONFIG=$apt/apt.conf apt-get -q -y --download-only install "$@"
    } >"$apt/log" 2>&1 || { tail -n 20 "$apt/log" >&2; return 1; }
}

say "packages"
fetch trixie base-files base-passwd bash busybox coreutils dash findutils grep haproxy libc-bin passwd \
    python3 python3-pip sed tar gzip
fetch sid haproxy prometheus prometheus-alertmanager promtool

say "Debian trixie with Python, and what HAProxy needs"
# base-files first: it has the links from /bin to /usr/bin and so on, through which others may unpack.
for package in "$work"/trixie/cache/archives/base-files_*.deb "$work"/trixie/cache/archives/*.deb; do
    dpkg -x "$package" "$root"
done
for file in passwd group; do
    cp "$root/usr/share/base-passwd/$file.master" "$root/etc/$file"
done
mkdir -p "$root"/{proc,sys,dev,run,tmp,root,usr/local/bin,usr/local/etc/haproxy}
chmod 1777 "$root/tmp"

say "what the real images have and Debian has elsewhere"
mkdir "$work/unpacked"
for package in "$work"/sid/cache/archives/{haproxy,prometheus,prometheus-alertmanager,promtool}_*.deb; do
    dpkg -x "$package" "$work/unpacked"
done
for program in prometheus promtool amtool; do
    install -m 0755 "$work/unpacked/usr/bin/$program" "$root/bin/$program"
done
install -m 0755 "$work/unpacked/usr/bin/prometheus-alertmanager" "$root/bin/alertmanager"
install -m 0755 "$work/unpacked/usr/sbin/haproxy" "$root/usr/sbin/haproxy"
mkdir -p "$root/usr/share/prometheus/web"
cp -r "$work/unpacked/usr/share/prometheus/alertmanager" "$root/usr/share/prometheus/"
cp -r "$work/unpacked/usr/share/prometheus/web/no-ui" "$root/usr/share/prometheus/web/"
ln -s /usr/bin/python3 "$root/usr/local/bin/python"
ln -s /usr/bin/busybox "$root/usr/local/bin/wget"
# pip in a build has to trust what pip on this machine trusts.
mkdir -p "$root/etc/ssl/certs"
install -m 0644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
rm -rf "$root"/usr/share/{doc,man,locale}

say "images"
tar -C "$root" --owner=0 --group=0 -c . | docker import - "$prefix/debian" >/dev/null
rm -rf "$root" "$work"/{trixie,sid,unpacked}
image() { # image NAME, with the Dockerfile's instructions on standard input
    { echo "FROM $prefix/debian"; cat; } |
        DOCKER_BUILDKIT=0 docker build -q --network none -t "$prefix/$1" - >"$work/build.log" 2>&1 ||
        { cat "$work/build.log" >&2; return 1; }
}
image python <<<'CMD ["python"]'
image haproxy <<<'CMD ["haproxy", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]'
# A named volume takes over the owner of the directory that it is mounted on.
image prometheus <<<'RUN mkdir /prometheus && chown 65534:65534 /prometheus
ENTRYPOINT ["/bin/prometheus"]'
image alertmanager <<<'RUN mkdir /alertmanager && chown 65534:65534 /alertmanager
ENTRYPOINT ["/bin/alertmanager"]'
