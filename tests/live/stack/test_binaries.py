"""Finding and fetching programs, with stand-ins for apt-get and dpkg-deb; the real ones are used by everything else."""

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stack import relocate
from stack.binaries import NAMES, Binaries, BinariesError, locate, obtain, obtain_hey, obtain_wrk, version
from stack.settings import ROOT

# What `apt-get download` and `dpkg-deb -x` do, on text files: a "package" is the list of its programs.
APT_GET = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/apt.log"
own=no; verb=; packages=
for word in "$@"; do
  case $word in
    Dir::State::Lists=*) own=yes ;;
    update|download) verb=$word ;;
    *) [ -n "$verb" ] && packages="$packages $word" ;;
  esac
done
[ "$verb" = update ] && { echo "W: one source is dead" >&2; exit 100; }
[ $own = no ] && [ -e "$(dirname "$0")/stale-lists" ] && { echo "E: Unable to locate package" >&2; exit 100; }
[ -e "$(dirname "$0")/no-network" ] && { echo "E: Failed to fetch http://x 503" >&2; exit 100; }
for package in $packages; do echo "$package" > "$package.deb"; done
"""
DPKG_DEB = """#!/bin/sh
if [ "$1" = -f ]; then
  case $2 in
    *prometheus.deb) echo "libc6 (>= 2), libjs-one (>= 3) | x, fonts-two" ;;
    *libjs-one.deb) echo libjs-three ;;
    *wrk.deb) echo "libc6, libluajit2 (>= 1)" ;;
  esac
  exit
fi
mkdir -p "$3/usr/bin"
case $2 in
  */prometheus.deb) programs="prometheus promtool" ;;
  */prometheus-alertmanager.deb) programs="prometheus-alertmanager amtool" ;;
  */wrk.deb) printf '#!/bin/sh\\necho wrk $LD_LIBRARY_PATH' > "$3/usr/bin/wrk"; chmod +x "$3/usr/bin/wrk" ;;
  */hey.deb)
    printf '#!/bin/sh\\n[ "$1" = -help ] && echo "Usage: hey [options...] <url>"' > "$3/usr/bin/hey"
    chmod +x "$3/usr/bin/hey" ;;
  */libluajit*.deb) mkdir -p "$3/usr/lib/here"; echo > "$3/usr/lib/here/libluajit.so.2" ;;
  *) echo "$2" >> "$3/assets" ;;
esac
for program in $programs; do
  printf '#!/bin/sh\\necho "%s, version 9.9 (Debian)"\\n' "${program#prometheus-}" > "$3/usr/bin/$program"
  chmod +x "$3/usr/bin/$program"
done
"""


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with the bare necessities of a machine and our stand-ins."""
    path = tmp_path / "system"
    path.mkdir()
    for name in ("sh", "dirname", "mkdir", "chmod", "readlink", "echo", "sleep"):
        found = shutil.which(name)
        assert found
        (path / name).symlink_to(found)
    program(path / "apt-get", APT_GET)
    program(path / "dpkg-deb", DPKG_DEB)
    monkeypatch.setenv("PATH", str(path))
    return path


@pytest.fixture
def bin_dir(tmp_path: Path) -> Path:
    return tmp_path / "home" / "bin"


def quiet(line: str) -> None:
    pass


def test_what_is_on_path_is_used_and_nothing_is_fetched(system: Path, bin_dir: Path) -> None:
    for tool in NAMES:
        name = "prometheus-alertmanager" if tool == "alertmanager" else tool  # Debian's name
        program(system / name, f"#!/bin/sh\necho '{tool}, version 1.2'\n")
    found = obtain(bin_dir, quiet)
    assert found == Binaries(
        system / "prometheus", system / "promtool", system / "prometheus-alertmanager", system / "amtool"
    )
    assert not bin_dir.parent.exists()


def test_packages_are_fetched_once_and_used_from_then_on(system: Path, bin_dir: Path) -> None:
    said: list[str] = []
    found = obtain(bin_dir, said.append)
    assert found == Binaries(*(bin_dir / tool for tool in NAMES))
    assert any("downloading prometheus prometheus-alertmanager" in line for line in said)
    assert (bin_dir.parent / "debian" / "assets").read_text().count("libjs-three.deb") == 1, "what the scripts need too"
    (system / "apt-get").unlink()
    assert obtain(bin_dir, pytest.fail) == found
    left = sorted(path.name for path in bin_dir.parent.iterdir())
    assert left == [".fetch.lock", "bin", "debian"]


def test_the_launchers_survive_a_move_of_the_directory(system: Path, bin_dir: Path) -> None:
    obtain(bin_dir, quiet)
    moved = bin_dir.parent.rename(bin_dir.parent.with_name("elsewhere")) / "bin"
    assert set(locate(moved)[0]) == set(NAMES)


def test_only_the_missing_package_is_fetched(system: Path, bin_dir: Path) -> None:
    for tool in ("prometheus", "promtool"):
        program(system / tool, f"#!/bin/sh\necho '{tool}, version 1.2'\n")
    found = obtain(bin_dir, quiet)
    assert found.prometheus.parent == system
    assert found.alertmanager.parent == bin_dir
    assert "download prometheus-alertmanager" in (system / "apt.log").read_text()
    assert "download prometheus prom" not in (system / "apt.log").read_text()


def test_stale_lists_are_replaced_by_our_own_even_when_some_source_is_dead(system: Path, bin_dir: Path) -> None:
    (system / "stale-lists").touch()
    obtain(bin_dir, quiet)
    log = (system / "apt.log").read_text()
    assert f"Dir::State::Lists={bin_dir.parent}" in log
    assert "update" in log


def test_when_it_cannot_be_had_the_message_says_what_was_tried_and_what_to_do(system: Path, bin_dir: Path) -> None:
    (system / "no-network").touch()
    with pytest.raises(BinariesError) as caught:
        obtain(bin_dir, quiet)
    message = str(caught.value)
    assert message.startswith("cannot find or fetch prometheus, promtool, alertmanager, amtool: not on PATH, not in ")
    assert "apt-get download with the system's lists: E: Failed to fetch" in message
    assert "apt-get download with fresh lists: E: Failed to fetch" in message
    assert "apt-get install prometheus prometheus-alertmanager" in message
    assert str(bin_dir) in message
    assert "\n" not in message
    assert [path.name for path in bin_dir.parent.iterdir()] == [".fetch.lock"], "nothing half-done stays"


def test_a_system_without_apt_is_told_so(system: Path, bin_dir: Path) -> None:
    (system / "apt-get").unlink()
    with pytest.raises(BinariesError, match="Debian's packages need apt-get, not found here"):
        obtain(bin_dir, quiet)


def test_a_program_of_the_same_name_is_not_taken_for_it(system: Path, bin_dir: Path) -> None:
    program(system / "prometheus", "#!/bin/sh\necho 'Prometheus, a titan'\n")
    assert obtain(bin_dir, quiet).prometheus == bin_dir / "prometheus"
    (system / "no-network").touch()
    shutil.rmtree(bin_dir)
    with pytest.raises(BinariesError, match=r"is not prometheus \(Prometheus, a titan\)"):
        obtain(bin_dir, quiet)


def test_two_at_once_fetch_once(system: Path, bin_dir: Path) -> None:
    found: list[Binaries] = []
    said: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(obtain(bin_dir, said.append))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 4
    assert len(set(found)) == 1
    assert (system / "apt.log").read_text().count("download prometheus prometheus-alertmanager") == 1


def test_wrk_is_fetched_alone_and_finds_the_library_that_it_brings(system: Path, bin_dir: Path) -> None:
    found = obtain_wrk(bin_dir, quiet)
    assert found == bin_dir / "wrk"
    assert "prometheus" not in (system / "apt.log").read_text()
    library = Path(version(found).removeprefix("wrk "))
    assert library.resolve() == bin_dir.parent / "debian" / "usr" / "lib" / "here"
    (system / "apt-get").unlink()
    assert obtain_wrk(bin_dir, pytest.fail) == found


def test_hey_is_fetched_and_known_by_its_usage(system: Path, bin_dir: Path) -> None:
    found = obtain_hey(bin_dir, quiet)
    assert found == bin_dir / "hey"
    (system / "apt-get").unlink()
    assert obtain_hey(bin_dir, pytest.fail) == found


def test_another_program_of_that_name_is_not_taken(system: Path, bin_dir: Path) -> None:
    program(system / "hey", "#!/bin/sh\necho 'hey there'\n")
    assert obtain_hey(bin_dir, quiet) == bin_dir / "hey"


def test_when_wrk_cannot_be_had_the_message_is_about_wrk(system: Path, bin_dir: Path) -> None:
    (system / "no-network").touch()
    with pytest.raises(BinariesError, match=r"cannot find or fetch wrk: .*apt-get install wrk\)") as caught:
        obtain_wrk(bin_dir, quiet)
    assert "rometheus" not in str(caught.value)


def test_a_directory_that_cannot_be_written_is_one_sentence(system: Path) -> None:
    with pytest.raises(BinariesError, match=r"cannot write in /dev/null/x .*TAILBOARD_BIN_DIR"):
        obtain(Path("/dev/null/x/bin"), quiet)


def test_a_path_compiled_into_a_program_is_replaced_by_one_of_the_same_length(tmp_path: Path) -> None:
    before = b"\x7fELF...bytes/usr/share/prometheus/alertmanager355.../usr/share/prometheus/alertmanager/ui/..."
    amtool = tmp_path / "debian" / "usr" / "bin" / "amtool"
    amtool.parent.mkdir(parents=True)
    amtool.write_bytes(before)
    script = relocate.launcher(amtool, tmp_path / "bin", tmp_path / "debian")
    after = amtool.read_bytes()
    assert len(after) == len(before)
    assert b"/usr/share/prometheus" not in after
    assert after.count(b"/proc/self/fd/9/") == 2
    assert 'exec 9<"$unpacked/usr/share/prometheus/alertmanager"' in script
    assert relocate.launcher(amtool, tmp_path / "bin", tmp_path / "debian") == script, "once more changes nothing"
    assert amtool.read_bytes() == after


def test_the_command_prints_where_they_are(system: Path, bin_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stack.binaries"],
        cwd=ROOT,
        env={"PATH": str(system), "TAILBOARD_BIN_DIR": str(bin_dir)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [[tool, str(bin_dir / tool)] for tool in NAMES]
    assert all("version 9.9" in line for line in lines)


def test_the_real_alertmanager_runs_from_any_directory(
    binaries: Binaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's would look for its templates under /usr, where nothing is installed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "template.tmpl").write_text('{{ define "x" }}{{ end }}')
    (tmp_path / "config.yml").write_text("route: {receiver: r}\nreceivers: [{name: r}]\ntemplates: [template.tmpl]\n")
    done = subprocess.run(
        [binaries.amtool, "check-config", "config.yml"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 templates" in done.stdout
