#!/usr/bin/env bash
# stand_ins.sh WORK_DIRECTORY PREFIX : images that stand in for the ones docker-compose.yml pins, where no registry of
# images can be reached. They come from Debian's packages: trixie for Python 3.13, sid for the newest HAProxy, Prometheus
# and Alertmanager. Tags made: PREFIX/python, /haproxy, /prometheus, /alertmanager. Needs root (debootstrap).
set -euo pipefail
work=$1 prefix=$2
root=$work/root
mkdir -p "$work"

say() { echo "stand-ins: $*" >&2; }

say "Debian trixie with Python, and what HAProxy needs"
# The machine's own mirror, so that this works wherever apt does.
# shellcheck disable=SC2016  # apt expands it
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
[ -n "$mirror" ] || { say "apt knows no Debian mirror; run apt-get update first"; exit 1; }
debootstrap --variant=minbase --include=busybox,ca-certificates,haproxy,python3,python3-pip trixie "$root" "$mirror" \
    >"$work/debootstrap.log" 2>&1 || { tail -n 20 "$work/debootstrap.log" >&2; exit 1; }

say "HAProxy, Prometheus and Alertmanager from sid"
apt=$work/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/debs"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$apt/sources.list"
options=(-q -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::Lists=$apt/lists"
    -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none)
apt-get "${options[@]}" update >"$work/apt.log" 2>&1 || { tail -n 20 "$work/apt.log" >&2; exit 1; }
(cd "$apt/debs" && apt-get "${options[@]}" download haproxy prometheus prometheus-alertmanager promtool) >>"$work/apt.log" 2>&1
for package in "$apt"/debs/*.deb; do
    dpkg -x "$package" "$apt/unpacked"
done

say "what the real images have and Debian has elsewhere"
for program in prometheus promtool amtool; do
    install -m 0755 "$apt/unpacked/usr/bin/$program" "$root/bin/$program"
done
install -m 0755 "$apt/unpacked/usr/bin/prometheus-alertmanager" "$root/bin/alertmanager"
install -m 0755 "$apt/unpacked/usr/sbin/haproxy" "$root/usr/sbin/haproxy"
mkdir -p "$root/usr/share/prometheus"
cp -r "$apt/unpacked/usr/share/prometheus/alertmanager" "$root/usr/share/prometheus/"
mkdir -p "$root/usr/share/prometheus/web" "$root/usr/local/etc/haproxy"
cp -r "$apt/unpacked/usr/share/prometheus/web/no-ui" "$root/usr/share/prometheus/web/"
ln -s /usr/bin/python3 "$root/usr/local/bin/python"
ln -s /usr/bin/busybox "$root/usr/local/bin/wget"
install -d -o 65534 -g 65534 "$root/prometheus" "$root/alertmanager"
# pip in a build has to trust what pip on this machine trusts.
install -m 0644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}

say "images"
tar -C "$root" -c . | docker import - "$prefix/debian" >/dev/null
rm -rf "$root" "$apt"
image() { # image NAME, with the Dockerfile's instructions on standard input: metadata only, no further layer
    { echo "FROM $prefix/debian"; cat; } | DOCKER_BUILDKIT=0 docker build -q -t "$prefix/$1" - >"$work/build.log" 2>&1 ||
        { cat "$work/build.log" >&2; return 1; }
}
image python <<<'CMD ["python"]'
image haproxy <<<'CMD ["haproxy", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]'
image prometheus <<<'ENTRYPOINT ["/bin/prometheus"]'
image alertmanager <<<'ENTRYPOINT ["/bin/alertmanager"]'
