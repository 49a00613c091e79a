# cairn used by a program of the group: it is no part of the group, and an exec of it is no "static program".
# The shell forks for all but its last command.
exits 0 cairn launch bash -c 'cairn list --json; true'
same "$(python3 -c 'import json,sys; print([p["name"] for p in json.loads(sys.argv[1]) if not p["foreign"]])' "$out")" "['bash']"
exits 0 cairn launch bash -c 'exec cairn status --json'
says '"session": "default"' "$out"
exits 0 cairn launch bash -c 'cairn launch --session inner echo fine; cairn list --session inner'
says fine "$out"
none() { [[ $(cairn list --json) == "[]" ]]; }
soon none
