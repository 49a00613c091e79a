#!/usr/bin/env python3
"""Makes the pictures of traces in docs/causality.md and docs/mpi.md: race-right.svg, race-wrong.svg and race-cut.svg.

    docs/pictures/record_trace.py        needs a build (--build, by default build/release), mpicc.mpich and mpiexec.mpich

examples/mpi/race.c runs under `cairn mpi trace` until there is a run with the right result and one with a wrong one.
Events are placed across by the order of causes: an event is right of all that could have influenced it."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
ROUNDS, RANKS = 4, 3
STEP, ROW, LEFT, TOP = 46, 64, 70, 50
COLOURS = {"send": "#1f6feb", "receive": "#1f6feb", "collective": "#6e7781", "internal": "#6e7781", "complete": "#b6bcc3"}


def read(path):
    events = [[] for _ in range(RANKS)]
    for line in path.read_text().splitlines():
        event = json.loads(line)
        if "e" in event:
            events[event["p"]].append(event)
    return events


def columns(events):
    """x of each event, and who a receive is from: {(process, number): column}, [(send, receive)]."""
    column, messages, last, done = {}, [], [0] * RANKS, [0] * RANKS
    sends, collectives = {}, {}
    while any(done[p] < len(events[p]) for p in range(RANKS)):
        before = list(done)
        for p in range(RANKS):
            if done[p] == len(events[p]):
                continue
            here, event = (p, done[p]), events[p][done[p]]
            x = last[p] + 1
            if event["e"] == "receive":
                waiting = sends.get((event["from"], p, event.get("tag", 0)))
                if not waiting:
                    continue
                sent = waiting.pop(0)
                x = max(x, column[sent] + 1)
                messages.append((sent, here))
            elif event["e"] == "send":
                sends.setdefault((p, event["to"], event.get("tag", 0)), []).append(here)
            elif event["e"] == "collective":
                # All members stand in one column, so all have to have come.
                collectives.setdefault(event["at"], {}).setdefault(p, x)
                if len(collectives[event["at"]]) < RANKS:
                    continue
                x = max(collectives.pop(event["at"]).values())
                for q in range(RANKS):
                    column[(q, done[q])] = last[q] = x
                    done[q] += 1
                continue
            column[here] = last[p] = x
            done[p] += 1
        if before == done:
            sys.exit("record_trace: the trace contradicts itself")
    return column, messages


def y_of(process):
    return TOP + process * ROW


def draw(events, title, cut=None, place=None):
    column, messages = columns(events)
    x = {event: LEFT + STEP * at for event, at in column.items()}
    width = LEFT + STEP * (max(column.values()) + 1)
    height = y_of(RANKS - 1) + (78 if cut else 50)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
           ' font-family="sans-serif" font-size="12">', f"<title>{title}</title>",
           '<defs><marker id="tip" viewBox="0 0 8 8" refX="11" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
           '<path d="M0 0 8 4 0 8z" fill="#1f6feb"/></marker></defs>',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           f'<text x="12" y="22" font-size="13" font-weight="bold" fill="#24292f">{title}</text>']
    for p in range(RANKS):
        out.append(f'<text x="12" y="{y_of(p) + 4}" fill="#24292f">rank {p}</text>'
                   f'<path d="M{LEFT} {y_of(p)}H{width - 14}" stroke="#8c959f"/>')
    for number, event in enumerate(events[0]):
        if event["e"] == "collective":
            at = x[(0, number)]
            out.append(f'<path d="M{at} {y_of(0)}V{y_of(RANKS - 1)}" stroke="#6e7781" stroke-width="3" opacity=".45"/>'
                       f'<text x="{at}" y="{y_of(0) - 10}" text-anchor="middle" font-size="10" fill="#57606a">'
                       f'{event["call"][4:]}</text>')
    for sent, received in messages:
        out.append(f'<path d="M{x[sent]} {y_of(sent[0])}L{x[received]} {y_of(received[0])}" stroke="#1f6feb"'
                   ' stroke-width="1.6" marker-end="url(#tip)"/>')
    for p in range(RANKS):
        for number, event in enumerate(events[p]):
            colour = "#d1242f" if event.get("nondeterministic") else COLOURS[event["e"]]
            out.append(f'<circle cx="{x[(p, number)]}" cy="{y_of(p)}" r="5" fill="{colour}"><title>{p}:{number} '
                       f'{event["call"]} at {event["at"]}</title></circle>')
            if event["e"] == "receive":
                out.append(f'<text x="{x[(p, number)]}" y="{y_of(p) - 10}" text-anchor="middle" font-size="10"'
                           f' fill="#d1242f">from {event["from"]}</text>')
    for counts, colour, text in ((cut, "#8250df", "the earliest cut with the marked event"),
                                 (place, "#1a7f37", "a place: nothing is in transit")):
        if counts is None:
            continue
        points = []
        for p in range(RANKS):
            at = (x[(p, counts[p] - 1)] if counts[p] else LEFT) + STEP * 0.45
            points += [f"{at:.0f} {y_of(p) - 22}", f"{at:.0f} {y_of(p) + 22}"]
        foot = float(points[-1].split()[0])
        out.append(f'<path d="M{"L".join(points)}V{y_of(RANKS - 1) + 36}" fill="none" stroke="{colour}" stroke-width="2"'
                   f' stroke-dasharray="6 4"/><text x="{foot:.0f}" y="{y_of(RANKS - 1) + 50}" text-anchor="middle"'
                   f' fill="{colour}">{text} ({",".join(map(str, counts))})</text>')
    if cut is not None:
        out.append(f'<circle cx="{x[(0, cut[0] - 1)]}" cy="{y_of(0)}" r="9" fill="none" stroke="#8250df"'
                   ' stroke-width="2"/>')
    out.append(f'<text x="12" y="{height - 10}" font-size="11" fill="#57606a">Blue: messages. Red: receives from anybody, '
               'which could have got another message. Grey: collectives and ends of calls.</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", default=ROOT / "build/release", type=pathlib.Path)
    cairn = str(options.parse_args().build.resolve() / "bin/cairn")
    with tempfile.TemporaryDirectory(prefix="cairn-trace-") as work:
        work = pathlib.Path(work)
        program = work / "race"
        subprocess.run(["mpicc.mpich", "-g", "-O1", "-o", program, ROOT / "examples/mpi/race.c"], check=True)
        found = {}
        for turn in range(200):
            folder = work / f"trace-{turn}"
            run = subprocess.run(["mpiexec.mpich", "-n", str(RANKS), cairn, "mpi", "trace", "--out", folder, program,
                                  str(ROUNDS)], capture_output=True, text=True, check=False)
            kind = "wrong" if "WRONG" in run.stdout else "right"
            if run.stdout.startswith("race:") and kind not in found:
                files = sorted(str(each) for each in folder.iterdir())
                subprocess.run([cairn, "causality", "convert", *files, work / f"{kind}.jsonl"], check=True)
                found[kind] = (read(work / f"{kind}.jsonl"), files, run.stdout.splitlines()[0])
            if len(found) == 2:
                break
        else:
            sys.exit(f"record_trace: 200 runs, and all were {list(found)}")
        for kind, (events, _, said) in found.items():
            (HERE / f"race-{kind}.svg").write_text(draw(events, f'race {ROUNDS} says "{said}"'))
        events, files, _ = found["wrong"]
        # The first receive of the second round.
        marked = [number for number, event in enumerate(events[0]) if event["e"] == "receive"][2]
        asked = ["cuts", "--after", f"0:{marked}"], ["places", "--after", f"0:{marked}"]
        answers = [json.loads(subprocess.run([cairn, "causality", *each, "--json", *files], capture_output=True, text=True,
                                             check=True).stdout) for each in asked]
        if os.environ.get("CAIRN_SHOW"):
            print(json.dumps(answers, indent=1))
        (HERE / "race-cut.svg").write_text(
            draw(events, f"The wrong run: which state has event 0:{marked}?", answers[0]["earliest_after"],
                 answers[1]["earliest_after"]))


if __name__ == "__main__":
    main()
