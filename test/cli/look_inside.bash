# What a checkpoint holds of programs in a pipeline: bytes in their memory, what connects them as a graph, the stacks that they were in, a core of each.
cat >program.py <<'PROGRAM'
import mmap, os, socket, time
a, b = socket.socketpair()
shared = mmap.mmap(-1, 8192)
shared[4090:4104] = b"needle\x00 in hay"
if os.fork() == 0:
    b.close()
    time.sleep(1000)
a.close()
kept = "a " + "secret" + str(4 + 3)
open("done", "w").close()
time.sleep(1000)
PROGRAM
cairn launch --ckptdir "$WORK/ckpt" bash -c '/usr/bin/python3 program.py | cat & wait' 251>&- &
soon test -e done
exits 0 cairn checkpoint
folder=$(head -n 1 <<<"$out")

exits 0 cairn inspect --grep 'needle\0 in hay' "$folder"  # over the border of two pages
says "needle. in hay" "$out"
holds test "$(grep -c /dev/zero <<<"$out")" = 2
exits 0 cairn inspect --grep 'a secret7' --json "$folder"
holds python3 -c 'import json, sys; found = json.loads(sys.argv[1])["found"]; assert found and all(each["name"] == "python3" and each["address"] for each in found)' "$out"
exits 1 cairn inspect --grep 'in nobody\x27s memory' "$folder"
exits 2 cairn inspect --grep '\q' "$folder"
says "of escapes there are" "$err"
exits 2 cairn inspect --grep '' "$folder"

exits 0 cairn inspect --dot "$folder"
says "digraph checkpoint" "$out"
says 'label="pipe ' "$out"
says 'label="unix ' "$out"
says 'label="memory /dev/zero' "$out"
holds test "$(grep -c 'style=bold' <<<"$out")" = 3  # bash's two children, and python3's
holds python3 -c '
import re, sys
nodes = set(re.findall(r"^  (\w+) \[", sys.argv[1], re.M)) - {"node", "edge"}
edges = re.findall(r"^  (\w+) -> (\w+) ", sys.argv[1], re.M)
assert len(edges) > 6 and all(a in nodes and b in nodes for a, b in edges), edges
' "$out"

exits 0 cairn inspect --html page.html "$folder"
holds python3 -c '
import json, re, sys
page = open("page.html").read()
data = json.loads(re.search(r"<script type=.application/json. id=.data.>(.*?)</script>", page, re.S)[1])
assert len(data["processes"]) == 4 and [each["number"] for each in data["generations"]] == [1], data
assert all(each["areas"] and each["stored"] > 0 and "thread" in each["stacks"] for each in data["processes"])
pipe, = [ends for kind, text, ends in data["objects"].values() if text.startswith("pipe") and "write" in text and ends]
assert any(key in pipe for each in data["processes"] for _, key in each["fds"])
assert "http" not in page.replace("http://www.w3.org/2000/svg", "")  # it needs nothing but itself
'
exits 3 cairn inspect --html page.html "$folder"
says "is there already" "$err"
# By the link the page has the generations as well.
exits 0 cairn inspect --html latest.html "$WORK/ckpt/latest"
generations() { grep -o '"generations":\[[^]]*\]' "$1"; }
same "$(generations latest.html)" "$(generations page.html)"
holds test "$(grep -o '"number":1' latest.html)" = '"number":1'

exits 0 cairn inspect --stacks "$folder"
says "clock_nanosleep" "$out"
says "in main" "$out"
exits 0 cairn inspect --core core "$folder"
holds test "$(ls core.* | wc -l)" = 4
holds test "$(head -c 4 "$(ls core.* | head -n 1)" | tail -c 3)" = ELF
exits 3 cairn inspect --core core "$folder"
says "is there already" "$err"
image=$(ls "$folder"/p*.image | head -n 1)
exits 0 cairn inspect --core one --json "$image"
holds python3 -c 'import json, sys; core, = json.loads(sys.argv[1])["cores"]; assert core["file"] == "one" and core["stored"] <= core["bytes"]' "$out"
exits 1 cairn inspect --core /nowhere/core "$image"
says "/nowhere/core" "$err"
exits 3 cairn inspect --core two "$folder/objects.image"
says "no process in it" "$err"
exits 0 cairn kill
