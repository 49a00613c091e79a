# cairn launch /bin/true against /bin/true, in turn, the coordinator running: at most 3 ms more (25th percentile; the
# machine may be busy, so it has three tries). The front alone is no slower than /bin/true itself and half a ms.
cairn launch sleep 1000 &
sleeper=$!
soon cairn status
cat >measure.py <<'END'
import os, sys, time

def once(argv):
    begin = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit("failed: " + " ".join(argv))
    return (time.perf_counter() - begin) * 1e3

cairn = sys.argv[1]
commands = {"true": ["/bin/true"], "launch": [cairn, "launch", "/bin/true"], "front": [cairn, "--version"]}
times = {name: [] for name in commands}
for _ in range(150):
    for name, argv in commands.items():
        times[name].append(once(argv))
low = {name: sorted(values)[len(values) // 4] for name, values in times.items()}
print("ms, 25th percentile:", {name: round(value, 2) for name, value in low.items()})
sys.exit(0 if low["launch"] - low["true"] <= 3 and low["front"] - low["true"] <= 0.5 else 1)
END
checks=$((checks + 1))
for try in 1 2 3; do
    python3 measure.py "$CAIRN_BUILD/bin/cairn" && good=1 && break
    good=0
    sleep 2
done
[[ $good -eq 1 ]] || wrong "too slow in three tries"
kill "$sleeper"
