#include "cli/verbs.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace cairn::cli {
namespace {

constexpr std::string_view control = "cairn-control";

constexpr std::array table = {
    Verb{"launch", "", false, "launch [OPTIONS] [--] PROGRAM [ARGUMENT...]",
         "run a program so that it can be checkpointed",
         "  -s, --session S       join this session (default: $CAIRN_SESSION, else \"default\")\n"
         "  -d, --ckptdir D       folder for the session's checkpoints ($CAIRN_CKPTDIR)\n"
         "  -i, --interval N      checkpoint every N seconds, 0: only when asked ($CAIRN_INTERVAL)\n"
         "  -k, --keep N          keep the newest N checkpoints, 0: all; 3 if not said ($CAIRN_KEEP)\n"
         "      --self-contained  images also hold the unmodified parts of mapped files\n"
         "                        ($CAIRN_SELF_CONTAINED=1)\n"
         "      --track-mem      ask the kernel which pages were written to, so that the others needn't be\n"
         "                       read ($CAIRN_TRACK_MEM=1)\n"
         "      --io-uring HOW   refuse (a checkpoint when requests wait in it for ever), or enosys (the\n"
         "                       program is told that the kernel has none, and takes its other path)\n"
         "      --cpu LEVEL      keep programs to the instructions of x86-64-v2, x86-64-v3 or x86-64-v4, so "
         "that\n"
         "                       they can be restarted on every machine that has these; host: all that this\n"
         "                       one has ($CAIRN_CPU)\n"
         "      --external POLICY connections to the outside: reset (by a restart), refuse (the\n"
         "                        checkpoint), keep-listening ($CAIRN_EXTERNAL)\n"
         "      --landlock POLICY programs that Landlock restricts: refuse (the checkpoint), drop (what\n"
         "                        restricts them, by a restart) ($CAIRN_LANDLOCK)\n"
         "      --compress HOW    how images are compressed: none, auto, lz4, zstd or zstd:LEVEL\n"
         "                        ($CAIRN_COMPRESS)\n"
         "      --files HOW       save (files that are open for writing are saved with each checkpoint of "
         "the\n"
         "                        session, and put back by a restart), or leave\n"
         "                        ($CAIRN_FILES)\n"
         "      --with DIR        save all of this folder, too; may be given again ($CAIRN_WITH=DIR:DIR)\n"
         "      --plugin FILE     preload this library, whose hooks (cairn.h) are called at checkpoints and\n"
         "                        restarts; may be given again\n"
         "  -c, --coordinator H:P root coordinator, on another host ($CAIRN_COORDINATOR)\n"
         "      --key FILE        the root's key ($CAIRN_KEY_FILE; $CAIRN_KEY: the key itself)\n"
         "\n"
         "Starts the session's coordinator if none answers, then becomes the program: same pid, terminal\n"
         "and exit status. A program that can't be saved is refused with exit code 3: one that is set-id\n"
         "or has file capabilities, one for another machine.\n"},
    Verb{"checkpoint", control, true, "checkpoint [OPTIONS]",
         "save the session's programs; returns when the checkpoint is durable",
         "  -s, --session S  the session (default: $CAIRN_SESSION, else \"default\")\n"
         "  -k, --kill       end the programs once the checkpoint is published\n"
         "  -d, --ckptdir D  put this checkpoint below D\n"
         "  -t, --timeout N  give up after N seconds\n"
         "  --self-contained this one also holds the unmodified parts of mapped files\n"
         "  --track-mem      ask the kernel which pages were written to since the last one, and until the "
         "next\n"
         "  --without-strangers leave out who belongs to the group and isn't registered\n"
         "  --external P     connections to the outside: reset, refuse, keep-listening\n"
         "  --landlock P     programs that Landlock restricts: refuse, drop (what restricts them)\n"
         "  --compress HOW   of this one: none, auto, lz4, zstd or zstd:LEVEL\n"
         "  --files HOW      of this one: save (files that are open for writing, too), leave ($CAIRN_FILES)\n"
         "  --with DIR       of this one: all of this folder, too; may be given again ($CAIRN_WITH)\n"
         "  --witness        look at the programs first; a restart can verify then\n"
         "  -j, --json       print one JSON object\n"
         "  -q, --quiet      print nothing but errors\n"},
    Verb{"restart", "cairn-restart", false, "restart [OPTIONS] [DIR|FILE]", "bring a checkpoint back to life",
         ""},
    Verb{"outside", "", false, "outside [--] PROGRAM [ARGUMENT...]",
         "start a program that is no part of the session",
         "\n"
         "For a program of the session, and its scripts: PROGRAM is its child and stays outside of the\n"
         "computation, with all that it starts. A checkpoint doesn't save it, a restart doesn't bring it "
         "back, and\n"
         "`cairn kill` leaves it alone.\n"},
    Verb{
        "list", control, true, "list [OPTIONS] [PID...]", "the session's processes, and what they are in",
        "  -s, --session S  the session (default: $CAIRN_SESSION, else \"default\")\n"
        "      --stacks     what each thread is in, function by function (Python's, too), and what it waits\n"
        "                   for\n"
        "      --waits      the same in one line for each process\n"
        "  -j, --json       print one JSON array\n"
        "\n"
        "With --stacks or --waits only the processes PID, if any are given. A process stands still for "
        "about\n"
        "a millisecond, and doesn't notice.\n"},
    Verb{"status", control, true, "status [--session S] [--json]", "the session at a glance",
         "  -s, --session S  the session (default: $CAIRN_SESSION, else \"default\")\n"
         "  -j, --json       print one JSON object\n"},
    Verb{"top", "cairn-top", false, "top [--session S] [--once] [--json]",
         "the session on one page, renewed each second",
         "  -s, --session S  the session (default: $CAIRN_SESSION, else \"default\")\n"
         "      --once       print one page and end; so it does where there is no terminal\n"
         "  -j, --json       the same as one JSON object\n"
         "\n"
         "Processes with memory, what of it has been written since the last checkpoint, and processor; what "
         "the\n"
         "next checkpoint will cost, how far the running one is, and the checkpoints that there are. Keys: q "
         "quit,\n"
         "c checkpoint now, s sort, arrows and page keys, h help.\n"},
    Verb{"interval", control, true, "interval [--session S] SECONDS",
         "checkpoint regularly (0: only when asked)",
         "  -s, --session S  the session (default: $CAIRN_SESSION, else \"default\")\n"
         "  -j, --json       print one JSON object\n"},
    Verb{"kill", control, true, "kill [--session S] [--json]", "end the session's processes (SIGKILL)",
         "  -s, --session S  the session (default: $CAIRN_SESSION, else \"default\")\n"
         "  -j, --json       print one JSON object\n"},
    Verb{"quit", control, true, "quit [--session S] [--json]",
         "end the session's coordinator; its programs go on",
         "  -s, --session S  the session (default: $CAIRN_SESSION, else \"default\")\n"
         "  -j, --json       print one JSON object\n"},
    Verb{"coordinator", "cairn-coordinator", false, "coordinator [OPTIONS]",
         "run a session's coordinator, with a console on a terminal", ""},
    Verb{"inspect", "cairn-inspect", false, "inspect [--json] [DIR|IMAGE]",
         "show what a checkpoint holds, or what differs between two", ""},
    Verb{"verify", "cairn-generations", true, "verify [--json] [DIR...]",
         "read checkpoints through, and say which are whole",
         "  -j, --json       print one JSON object\n"
         "\n"
         "DIR is a folder of checkpoints, of one computation or of one generation (default: $CAIRN_CKPTDIR,\n"
         "else the current folder, or cairn-USER in it if others can write it). Every byte that a restart\n"
         "would read is compared with its checksum: of manifests, images, those of earlier generations that\n"
         "are needed, and saved files. Exit code 4: something is damaged; the newest whole generation is\n"
         "named.\n"},
    Verb{"prune", "cairn-generations", true, "prune --keep N|--older AGE|--damaged [OPTIONS] [DIR...]",
         "remove old or damaged checkpoints",
         "  -k, --keep N     the newest N generations of each computation stay\n"
         "  -o, --older AGE  only those that were taken longer ago: 90s, 15m, 12h, 7d, 4w\n"
         "      --damaged    those that aren't whole (see `cairn help verify`), and no others\n"
         "  -n, --dry-run    only say what would go\n"
         "  -j, --json       print one JSON object\n"
         "\n"
         "DIR is as for `cairn verify`. The newest generation of a computation stays, unless it is damaged.\n"
         "What later generations need of earlier ones stays with them.\n"},
    Verb{"export", "cairn-generations", true, "export [--json] FILE [DIR]",
         "one checkpoint as one file, to carry away",
         "  -j, --json       print one JSON object\n"
         "\n"
         "Writes the checkpoint in DIR, or the newest in it (default: as of `cairn verify`), with all\n"
         "that it needs of earlier ones, as a tar archive; compressed, if FILE ends in .zst or .gz. FILE -\n"
         "is standard output. A damaged one is refused. `cairn restart FILE` brings it back.\n"},
    Verb{"import", "cairn-generations", true, "import [--json] FILE [DIR]",
         "unpack what `cairn export` has written",
         "  -j, --json       print one JSON object\n"
         "\n"
         "Unpacks FILE (-: standard input) below DIR (default: as of `cairn verify`) and prints the\n"
         "checkpoint's folder, for `cairn restart` and all else. What is there already stays.\n"},
    Verb{"witness", "cairn-witness", false, "witness [OPTIONS] PID...",
         "write down what the kernel shows of programs, and compare", ""},
    Verb{
        "doctor", "cairn-doctor", false, "doctor [OPTIONS]",
        "try what this machine gives, and say what that means for cairn",
        "  -d, --ckptdir D  the folder for checkpoints to look at ($CAIRN_CKPTDIR)\n"
        "  -t, --timeout N  seconds it may take; 2 if not said\n"
        "  -j, --json       print one JSON object\n"
        "\n"
        "Each line is ok, slower (all is done, in more time), a note, or missing (something can't be done),\n"
        "and says what to do about it, and as whom. Among other things a small program is launched, saved "
        "and\n"
        "restarted in a session of the doctor's own. Nothing is left behind. Exit code 3: something that is\n"
        "needed is missing.\n"},
    Verb{"causality", "cairn-causality", false, "causality VERB [OPTIONS] TRACE...",
         "who could have influenced whom: traces, cuts, recovery lines", ""},
    Verb{"mpi", "cairn-mpi", false, "mpi VERB [OPTIONS] [DIR] PROGRAM [ARGUMENT...]",
         "record and replay the order of an MPI program's events", ""},
    Verb{"slurm", "cairn-slurm", false, "slurm run [OPTIONS] [--] PROGRAM [ARGUMENT...]",
         "make a batch job of Slurm's restartable", ""},
    Verb{"service", "cairn-service", false, "service run|status|check|forget [OPTIONS] NAME",
         "programs as a service that goes on after a reboot", ""},
    Verb{"help", "", false, "help [VERB]", "this list, or how to use one verb", ""},
};

// Edit distance with swaps of neighbours counted as one (optimal string alignment); names are short.
std::size_t distance(std::string_view a, std::string_view b) {
    constexpr std::size_t longest = 24;
    a = a.substr(0, longest);
    b = b.substr(0, longest);
    std::array<std::array<std::size_t, longest + 1>, longest + 1> d{};
    for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
    for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i)
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t change = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, change});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[a.size()][b.size()];
}

}  // namespace

std::span<const Verb> verbs() {
    return table;
}

const Verb* find_verb(std::string_view name) {
    const auto* found =
        std::find_if(table.begin(), table.end(), [&](const Verb& v) { return v.name == name; });
    return found == table.end() ? nullptr : found;
}

const Verb* nearest_verb(std::string_view name) {
    const Verb* best = nullptr;
    std::size_t least = 1 + std::max<std::size_t>(1, name.size() / 3);
    for (const Verb& verb : table) {
        const bool prefix = name.size() >= 2 && verb.name.starts_with(name);
        const std::size_t far = prefix ? 0 : distance(name, verb.name);
        if (far < least) {
            least = far;
            best = &verb;
        }
    }
    return best;
}

}  // namespace cairn::cli
