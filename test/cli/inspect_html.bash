# The page of `cairn inspect --html` in a browser: its own check of itself (#selftest), with a thousand processes.
browser=$(command -v chromium || command -v chromium-headless-shell || command -v google-chrome) ||
    skip "no chromium; apt-get install chromium"
cat >many.py <<'PROGRAM'
import os, time
ends = os.pipe()
for i in range(999):
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "1000"])
open("ready", "w").close()
time.sleep(1000)
PROGRAM
cairn launch --ckptdir "$WORK/ckpt" /usr/bin/python3 many.py &
soon test -e ready
thousand() { test "$(cairn status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["processes"])')" = 1000; }
soon thousand
exits 0 cairn checkpoint --quiet
exits 0 cairn kill
exits 0 cairn inspect --html page.html "$WORK/ckpt"
run timeout 100 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$WORK/profile" --dump-dom "file://$WORK/page.html#selftest"
says '<title>selftest passed' "$out"
result=$(sed -n 's/.*<pre id="selftest">\(.*\)<\/pre>.*/\1/p' <<<"$out")
same "$(field errors "$result")" '[]'
same "$(field processes "$result")" 1000
echo "$result"
# No stutter: a tenth of a second at most for what a click or a turn of the wheel does, in proportion where more wants to run than there are
# processors.
holds python3 -c '
import json, os, sys
took = json.loads(sys.argv[1])["took"]
sys.exit(max(took.values()) > 100 * max(1, os.getloadavg()[0] / os.cpu_count()))' "$result"
