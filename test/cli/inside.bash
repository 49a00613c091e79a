# cairn used by a program of the group: it is no part of the group, and an exec of it is no "static program".
exits 0 cairn launch bash -c 'cairn list --json'
same "$(python3 -c 'import json,sys; print([p["name"] for p in json.loads(sys.argv[1])])' "$out")" "['bash']"
exits 0 cairn launch bash -c 'exec cairn status --json'
checks=$((checks + 1))
says '"session": "default"' "$out"
exits 0 cairn launch bash -c 'cairn launch --session inner echo fine; cairn list --session inner'
says fine "$out"
none() { [[ $(cairn list --json) == "[]" ]]; }
soon none
