// What is said to people, and what happens when the program leaves its record.
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>

#include "mpi/interposer/outcomes.h"
#include "mpi/record/heard.h"

namespace cairn::mpi {
namespace {

bool few_processors() {
    static const bool answer = [] {
        cpu_set_t set;
        if (::sched_getaffinity(0, sizeof set, &set) != 0) return true;
        return CPU_COUNT(&set) < session->size;
    }();
    return answer;
}

// A debugger is attached.
bool traced() {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("TracerPid:")) return std::atoi(line.c_str() + 10) != 0;
    return false;
}

}  // namespace

void behind_alone() {
    const Session& s = *session;
    // What is behind the last event of a record that breaks off may be a crash.
    if (s.tracer && !s.reader->closed() && s.events + 1 >= s.reader->begun()) s.tracer->flush();
    if (standing_alone) stand_behind();
}

void stop_alone() {
    if (session->tracer) session->tracer->flush();
    if (standing_alone) stand_departed();
    if (traced()) ::raise(SIGTRAP);
    ::_exit(static_cast<int>(ExitCode::refused));
}

void keep_moving() {
    int flag = 0;
    real.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, session->own, &flag, MPI_STATUS_IGNORE);
    const timespec moment{.tv_sec = 0, .tv_nsec = 2'000'000};
    ::nanosleep(&moment, nullptr);
}

void wait_here() {
    for (;;) keep_moving();
}

void say(const std::string& text) {
    const std::string line = fmt::format("cairn mpi: rank {}: {}\n", session->rank, text);
    if (standing_alone) return tell_debugger(line);
    // One write, so that lines of several ranks don't mix.
    static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
}

void depart(const std::string& expected, const std::string& happened) {
    const Session& s = *session;
    const char* same = expected == happened ? ", another call of this line" : "";
    // In one piece: another rank that departs may end this one at any moment.
    std::string text = fmt::format("departs from its record at event {}\n  recorded: {}\n  now:      {}{}",
                                   s.events, expected, happened, same);
    if (asked_for_time && !s.clock)
        text +=
            "\n  The program asks MPI_Wtime, and what that said isn't in this record: if its path goes by "
            "it, "
            "record it with --clock";
    say(text);
    if (s.alone) stop_alone();
    const char* then = std::getenv("CAIRN_MPI_DEPARTED");
    if (then != nullptr && std::string_view(then) == "wait") {
        say(fmt::format("stopped; look at it with: gdb -p {}", ::getpid()));
        wait_here();
    }
    wait_until_heard();
    real.Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::refused));
    ::_exit(static_cast<int>(ExitCode::refused));
}

void check_end() {
    const Session& s = *session;
    if (s.reader->closed() || s.events <= s.reader->begun()) return;
    record_ends();
}

void record_ends() {
    const Session& s = *session;
    if (s.reader->closed())
        depart("the end of the record", fmt::format("event {}, which it doesn't have", s.events));
    if (s.alone) {
        if (standing_alone) stand_at_cut();
        say(fmt::format("its record ends here, at event {} of {}", s.events, s.reader->begun()));
        stop_alone();
    }
    say(fmt::format("its record ends here, at event {} of {}: stopped; look at it with: gdb -p {}", s.events,
                    s.reader->begun(), ::getpid()));
    wait_here();
}

void let_others_run() {
    Session& s = *session;
    if (s.alone) return;
    // The MPI moves other messages only while it is called.
    if (s.job == Job::replay && (++s.polls & 15) == 0) {
        int flag = 0;
        real.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, s.own, &flag, MPI_STATUS_IGNORE);
    }
    if (few_processors()) ::sched_yield();
}

}  // namespace cairn::mpi
