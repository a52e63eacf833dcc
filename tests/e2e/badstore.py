"""A data directory that is full, damaged, or in use: cases of badinput.py with a separate server.
"""

import contextlib
import random
import subprocess
import time

import otlp
from spanwise import Spanwise

MEBIBYTE = 2**20


@contextlib.contextmanager
def server(program, directory, data):
    """A running `spanwise server`, which is killed at the end."""
    spanwise = Spanwise(program, data, directory / "spanwise.log", "server")
    try:
        spanwise.start()
        yield spanwise
    finally:
        spanwise.kill()


def full_data_directory(checks, program, directory):
    """A disk that fills up: refused with advice, still answering, and working again by itself when
    there is room.
    """
    mount = directory / "disk"
    mount.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=768m", "tmpfs", str(mount)], capture_output=True, text=True)
    if mounted.returncode:
        print(f"skipped: no tmpfs can be mounted here: {mounted.stderr.strip()}")
        return
    try:
        with server(program, directory, mount / "data") as spanwise:
            status, _, answer = otlp.post(spanwise.otlp, otlp.spans(100))
            checks.check("there is room: taken", status == 200, f"{status} {answer[:120]!r}")
            filler = mount / "filler"
            fill(filler)
            refused = answer = None
            for _ in range(50):
                status, headers, answer = otlp.post(spanwise.otlp, otlp.spans(200, padding=4000))
                if status != 200:
                    refused = status, headers.get("Retry-After")
                    break
            checks.check("there is no room: refused with advice", refused is not None and refused[0] == 429 and refused[1],
                         f"{refused}, {answer[:160]!r}")
            checks.check("it lives and answers", spanwise.alive() and spanwise.spans() >= 100, f"{spanwise.spans()} spans")
            status = spanwise.get("status")
            checks.check("the status says so", "full" in str(status).lower() or "space" in str(status).lower(), str(status.get("warnings"))[:200])
            filler.unlink()
            status, deadline = 0, time.monotonic() + 15
            while status != 200 and time.monotonic() < deadline:
                status, _, answer = otlp.post(spanwise.otlp, otlp.spans(100, service="after-full"))
                time.sleep(0.3)
            checks.check("there is room again: taken", status == 200, f"{status} {answer[:120]!r}")
            before = spanwise.spans()
            spanwise.kill()
            spanwise.start()
            checks.check("nothing that was taken is lost", spanwise.spans() >= before, f"{spanwise.spans()} of {before}")
    finally:
        subprocess.run(["umount", str(mount)], check=False)


def fill(path):
    """Writes until the disk has no byte left."""
    with open(path, "wb", buffering=0) as file:
        for size in (MEBIBYTE, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"\0" * size) == size:
                    pass


def damaged_log_segment(checks, program, directory):
    """The last write-ahead log segment ends with random bytes, and then lacks its end."""
    data = directory / "data"
    for name, damage in (("noise at its end", append_noise), ("its end cut off", cut_end), ("noise in its middle", noise_inside)):
        with server(program, directory, data) as spanwise:
            before = spanwise.spans()
            for _ in range(20):
                status, _, answer = otlp.post(spanwise.otlp, otlp.spans(10))
                if status != 200:
                    checks.check(f"taken before {name}", False, f"{status} {answer[:120]!r}")
            count = spanwise.spans()
            spanwise.kill()
            segment = newest(data, lambda path: "wal" in str(path.relative_to(data)).lower())
            if not checks.check(f"{name}: there is a log segment", segment is not None and count == before + 200, f"{segment}, {count} spans"):
                continue
            damage(segment)
            spanwise.start()
            after = spanwise.spans()
            least = count if damage is append_noise else before
            checks.check(f"a segment with {name}: it starts and keeps what is whole", least <= after <= count, f"{after} of {count} spans")
            if damage is not append_noise:
                checks.check(f"a segment with {name}: it says so", "wal" in spanwise.tail(200).lower() or "log" in str(spanwise.get("status")["warnings"]).lower(),
                             str(spanwise.get("status")["warnings"])[:200])
            status, _, answer = otlp.post(spanwise.otlp, otlp.spans(10))
            checks.check(f"a segment with {name}: new spans are taken", status == 200 and spanwise.spans() == after + 10, f"{status}")
            spanwise.kill()
            spanwise.start()
            checks.check(f"a segment with {name}: and kept", spanwise.spans() == after + 10, f"{spanwise.spans()} of {after + 10}")


def damaged_parquet_file(checks, program, directory):
    """A truncated Parquet file: set aside, and everything else is served."""
    data = directory / "data"
    with server(program, directory, data) as spanwise:
        sent, deadline = 0, time.monotonic() + 120
        while not parquet(data) and time.monotonic() < deadline:
            if sent < 40_000:
                status, _, _ = otlp.post(spanwise.otlp, otlp.spans(1000, padding=4000))
                sent += 1000 * (status == 200)
            else:
                time.sleep(1)
        time.sleep(2)
        if not checks.check("a Parquet file was written", parquet(data), f"{sent} spans sent"):
            return
        spanwise.kill()
        whole = {path: path.stat().st_size for path in parquet(data)}
        cut_end(max(whole, key=lambda path: path.stat().st_mtime))
        spanwise.start()
        checks.check("it starts without the damaged file", spanwise.alive() and spanwise.spans() <= sent, f"{spanwise.spans()} of {sent} spans")
        warnings = str(spanwise.get("status")["warnings"])
        checks.check("it names the damaged file", ".parquet" in warnings or ".parquet" in spanwise.tail(200), warnings[:200])
        status, _, _ = otlp.post(spanwise.otlp, otlp.spans(10, service="after-damage"))
        found = int(spanwise.sql("SELECT count(*) FROM spans WHERE service = 'after-damage'")[0][0])
        checks.check("new spans are taken and found", status == 200 and found == 10, f"{status}, {found} of 10")


def second_server(checks, program, directory):
    """Two servers on one data directory: the second is refused with a reason."""
    with server(program, directory, directory / "data"):
        other = Spanwise(program, directory / "data", directory / "other.log", "server")
        done = subprocess.run(other.arguments(), capture_output=True, text=True, timeout=30)
        said = done.stderr + done.stdout
        checks.check("a second server on the same data is refused", done.returncode == 1 and str(directory / "data") in said,
                     f"{done.returncode}, {said.strip()[-200:]}")


def parquet(data):
    return [path for path in data.rglob("*.parquet") if path.is_file()]


def newest(data, wanted):
    """The most recently written matching file, except for locks and empty ones."""
    files = [path for path in data.rglob("*") if path.is_file() and path.stat().st_size and wanted(path)]
    return max(files, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)


def append_noise(path):
    with open(path, "ab") as file:
        file.write(random.Random(1).randbytes(3000))


def cut_end(path):
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.truncate(size - min(size // 2, 700))


def noise_inside(path):
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.seek(size - min(size // 3, 4000))
        file.write(random.Random(2).randbytes(64))


store_cases = [full_data_directory, damaged_log_segment, damaged_parquet_file, second_server]
